# Varnish in front of shapeserver: any number of clients that follow a shape, by long polls or event streams, cost the
# server one request for each change. docs/caching.md says why each line is here, and what it does to secrets.
# Written for Varnish 7.1. Start it with room for long URLs and for electric-schema, which describes every column:
#
#   varnishd -a :8080 -f /etc/varnish/shapeserver.vcl -s malloc,4g \
#     -p http_req_size=256k -p http_req_hdr_len=128k -p workspace_client=512k \
#     -p http_resp_size=256k -p http_resp_hdr_len=128k -p workspace_backend=512k

vcl 4.1;

import std;

backend shapeserver {
    .host = "127.0.0.1"; # CHANGE: SHAPESERVER_LISTEN_HOST
    .port = "3000";      # CHANGE: SHAPESERVER_PORT
    .connect_timeout = 5s;
    # More than the longest silence of the server: SHAPESERVER_LONG_POLL_TIMEOUT (20 s), SSE_KEEPALIVE (21 s), and 45 s
    # for a snapshot to begin.
    .first_byte_timeout = 75s;
    .between_bytes_timeout = 75s;
}

sub vcl_recv {
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
    # The server reads no cookies, so they need not keep requests apart.
    unset req.http.Cookie;
    # What an authorizing hop behind this one would decide must not be remembered. With one before it, unset the header
    # instead.
    if (req.http.Authorization) {
        return (pass);
    }
    # The whole URL is the key, the secret in it (builtin vcl_hash). A request without the right secret can therefore never
    # be answered from what a request with it has left.
    return (hash);
}

sub vcl_backend_response {
    # Varnish takes stale-while-revalidate for its grace. Without one there is none: an ended event stream or a 409 must
    # not be handed out after its time.
    if (beresp.http.Cache-Control !~ "stale-while-revalidate") {
        set beresp.grace = 0s;
    }
    # Without this Varnish caches no 409, and everyone who waited on a shape that went would ask the server again.
    if (beresp.status == 409 && beresp.http.Cache-Control ~ "max-age=[0-9]+") {
        set beresp.ttl = std.duration(regsub(beresp.http.Cache-Control, "^.*max-age=([0-9]+).*$", "\1") + "s", 1s);
        return (deliver);
    }
    # Errors are no-store. Those who wait for the same answer are let through, but only for a moment, not for the
    # builtin 120 s.
    if (beresp.status >= 400) {
        set beresp.ttl = 1s;
        set beresp.uncacheable = true;
        return (deliver);
    }
}

sub vcl_deliver {
    unset resp.http.X-Varnish;
    unset resp.http.Via;
}
