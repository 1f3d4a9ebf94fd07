package config

import (
	"errors"
	"regexp"
	"strings"
)

// accepted are the names of protocol.md §13 that have no meaning here, with the reason. They are reported once, so
// that an environment written for the reference server starts this one unchanged.
var accepted = map[string]string{
	"ELECTRIC_DATABASE_USE_IPV6":                          "every address of the database's host is tried, IPv6 and IPv4",
	"ELECTRIC_TEMPORARY_REPLICATION_SLOT_USE_RANDOM_NAME": "the slot is never temporary; give each server a REPLICATION_STREAM_ID of its own",
	"ELECTRIC_REPLICATION_IDLE_TIMEOUT":                   "the connections to the database stay open",
	"ELECTRIC_PUBLICATION_ALTER_DEBOUNCE_TIME":            "tables that wait to be published are gathered without a pause",
	"ELECTRIC_PERSISTENT_STATE":                           "the catalogue of shapes is kept in Postgres, in schema shapeserver",
	"ELECTRIC_STORAGE":                                    "logs are always kept in STORAGE_DIR",
	"ELECTRIC_SHAPE_DB_EXCLUSIVE_MODE":                    "there is no SQLite file",
	"ELECTRIC_SHAPE_DB_STORAGE_DIR":                       "there is no SQLite file",
	"ELECTRIC_SHAPE_DB_SYNCHRONOUS":                       "there is no SQLite file",
	"ELECTRIC_SHAPE_DB_CACHE_SIZE":                        "there is no SQLite file",
	"ELECTRIC_CLEANUP_INTERVAL_MS":                        "removed shapes are deleted at once",
	"ELECTRIC_EXPERIMENTAL_MAX_TXN_SIZE":                  "a transaction may have any size",
	"ELECTRIC_EXPERIMENTAL_MAX_BATCH_SIZE":                "transactions are not cut into batches",
	"ELECTRIC_SUBQUERY_BUFFER_MAX_TRANSACTIONS":           "there is no such buffer",
	"ELECTRIC_SHAPE_HIBERNATE_AFTER":                      "an idle shape costs next to nothing; see SHAPE_SUSPEND_AFTER",
	"ELECTRIC_CONSUMER_PARTITIONS":                        "shapes are not partitioned",
	"ELECTRIC_TWEAKS_HTTP_API_NUM_ACCEPTORS":              "the HTTP server needs no such limit",
	"ELECTRIC_TWEAKS_CONN_MAX_REQUESTS":                   "a connection carries any number of requests",
	"ELECTRIC_TWEAKS_HTTP_API_CONN_MAX_REQUESTS":          "a connection carries any number of requests",
	"ELECTRIC_SERVICE_NAME":                               "it named the service in telemetry; metrics are scraped from PROMETHEUS_PORT",
	"ELECTRIC_FEATURE_FLAGS":                              "there are no feature flags",
	"ELECTRIC_LIVE_DASHBOARD_PORT":                        "there is no such dashboard",
	"ELECTRIC_STATSD_HOST":                                "metrics are scraped from PROMETHEUS_PORT",
	"ELECTRIC_OTLP_ENDPOINT":                              "metrics are scraped from PROMETHEUS_PORT",
	"ELECTRIC_OTEL_DEBUG":                                 "metrics are scraped from PROMETHEUS_PORT",
	"ELECTRIC_OTEL_SAMPLING_RATIO":                        "metrics are scraped from PROMETHEUS_PORT",
	"ELECTRIC_METRICS_SAMPLING_RATIO":                     "metrics are never sampled",
	"ELECTRIC_DROP_EMPTY_RESPONSE_SPANS":                  "no traces are sent",
	"ELECTRIC_EXCLUDE_SPANS":                              "no traces are sent",
	"ELECTRIC_HNY_API_KEY":                                "no traces are sent",
	"ELECTRIC_HNY_DATASET":                                "no traces are sent",
	"SENTRY_DSN":                                          "nothing is reported to anyone but the log",
	"ELECTRIC_SYSTEM_METRICS_POLL_INTERVAL":               "metrics are read when they are scraped",
	"ELECTRIC_LOG_COLORS":                                 "the log has no colours",
	"ELECTRIC_LOG_OTP_REPORTS":                            "there are no such reports",
}

// acceptedChecks are the values that the reference refuses, or that would promise what this server does not do.
var acceptedChecks = map[string]func(string) error{
	"ELECTRIC_STORAGE": func(s string) error {
		if s != "FAST_FILE" && s != "MEMORY" {
			return errors.New("want FAST_FILE or MEMORY (or leave it out)")
		}
		return nil
	},
	"ELECTRIC_PERSISTENT_STATE": func(s string) error {
		if s != "FILE" && s != "MEMORY" {
			return errors.New("want FILE or MEMORY (or leave it out)")
		}
		return nil
	},
	"ELECTRIC_SHAPE_HIBERNATE_AFTER": func(s string) error {
		var c Config
		return durationValue{p: &c.SuspendAfter, hi: 30 * day}.Set(s)
	},
}

// Kubernetes gives every container variables that describe each service of its namespace. Those of a service called
// "shapeserver" or "electric" look like settings, down to SHAPESERVER_PORT=tcp://10.0.0.1:3000.
// https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
var (
	serviceLinkName  = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)
	serviceLinkValue = regexp.MustCompile(`^(tcp|udp|sctp)://[^/]+:\d+$`)
)

func isServiceLink(name, value string) bool {
	return serviceLinkName.MatchString(name) || strings.HasSuffix(name, "_PORT") && serviceLinkValue.MatchString(value)
}
