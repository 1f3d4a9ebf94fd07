package where

import "strings"

// checkZone takes UTC only: rules of other zones differ between releases of the time zone database.
func checkZone(n *node) error { return checkZoneAt(n, 0) }

// checkZoneAt is checkZone for another argument than the first.
func checkZoneAt(n *node, i int) error {
	zone := n.args[i]
	if !zone.isConst() || zone.val.st == isNull {
		return errorAt(zone.loc, "%s is supported with a constant time zone only", n.fn.name)
	}
	switch strings.ToLower(string(zone.val.b)) {
	case "utc", "gmt", "etc/utc", "zulu", "z", "etc/gmt", "uct", "universal":
		return nil
	default:
		return errorAt(zone.loc, "time zone %q is not supported, since its rules depend on the database server's release of the time zone data; UTC and an interval such as interval '2 hours' are", excerpt(string(zone.val.b)))
	}
}

// shiftZone moves by a zone that is given as an interval east of UTC.
func shiftZone(zone, ts value, sign int64) value {
	if infinite(ts) {
		return ts // whatever the zone
	}
	if zone.j != 0 {
		return failedValue
	}
	us, ok := addInt(ts.i, sign*(zone.i/usPerSecond*usPerSecond))
	if !ok || !validTimestamp(us) {
		return failedValue
	}
	return intValue(us)
}

// shiftZonetz moves a time of day to another zone.
func shiftZonetz(t value, west int64) value {
	if west != int64(int32(west)) {
		return failedValue
	}
	v := addClock(t, (t.j-west)*usPerSecond)
	v.j = west
	return v
}

// timetzToZone is AT TIME ZONE with an interval east of UTC.
func timetzToZone(zone, t value) value {
	if zone.j != 0 {
		return failedValue
	}
	return shiftZonetz(t, -(zone.i / usPerSecond))
}
