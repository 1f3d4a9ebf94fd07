package where_test

import (
	"fmt"
	"testing"
)

// TestNetworksAgreeWithPostgres tries the operators and functions of inet, cidr, macaddr and macaddr8 on addresses of
// both families, and the forms in which addresses are written.
func TestNetworksAgreeWithPostgres(t *testing.T) {
	o := newOracle(t, 31, 60)
	var exprs []string
	add := func(format string, args ...any) { exprs = append(exprs, fmt.Sprintf(format, args...)) }
	texts := []string{
		"10.0.0.1", "10.0.0.0/8", "10.1.2.3/16", "10.1/16", "10/8", "10.1.2/24", "192.168.1.255/25", "255.255.255.255", "0.0.0.0", "0.0.0.0/0", "1.2.3.4/32", "1.2.3.4/33", "1.2.3.4/0", "1.2.3", "256.1.1.1", "10.0/17",
		"010.1.1.1", "1.2.3.4/", "1.2.3.4/-1", " 1.2.3.4", "1.2.3.4 ", "::", "::/0", "::1", "::2", "::1:2", "::ffff:1.2.3.4", "::ffff:1.2.3.4/96", "::1.2.3.4", "1::", "2001:db8::1/64", "2001:DB8:0:0:1:0:0:1", "fe80::1/10",
		"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "::1/129", "1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:8", "0:0:1::", "fe80::1%eth0", "::ffff:0:0", "0:1:0:0:0:1:0:0", "1.2.3.4.5", "", "abc",
	}
	for _, a := range texts {
		for _, typ := range []string{"inet", "cidr"} {
			add("'%s'::%s", a, typ)
			add("'%s'::%s::text", a, typ)
			for _, f := range []string{"host", "family", "masklen", "netmask", "hostmask", "network", "broadcast", "abbrev", "text", "-1 + ", "~"} {
				add("%s('%s'::%s)", f, a, typ)
			}
			for n := -2; n < 140; n += 9 {
				add("set_masklen('%s'::%s, %d)", a, typ, n)
			}
			for _, n := range []string{"0", "1", "-1", "255", "4294967295", "-4294967296", "9223372036854775807", "-9223372036854775808"} {
				add("'%s'::%s + %s", a, typ, n)
				add("'%s'::%s - (%s)::int8", a, typ, n)
			}
		}
		add("'%s'::inet::cidr", a)
		for _, op := range []string{"=", "<>", "<", "<=", ">", ">=", "<<", "<<=", ">>", ">>=", "&&", "&", "|", "-"} {
			add("c_inet %s '%s'", op, a)
			add("'%s' %s c_cidr", a, op)
		}
		for _, b := range texts {
			for _, op := range []string{"<", "<<=", "&&", "-", "|", "="} {
				add("'%s'::inet %s '%s'", a, op, b)
			}
			add("inet_merge('%s', '%s')", a, b)
			add("inet_same_family('%s', '%s')", a, b)
		}
	}
	for _, a := range []string{
		"08:00:2b:01:02:03", "08-00-2b-01-02-03", "08002b:010203", "08002b-010203", "0800.2b01.0203", "08002b010203", "FF:FF:FF:FF:FF:FF", "ff:ff:ff:ff:ff:ff:ff:ff", "0800.2b01.0203.0405",
		"08:00:2b:ff:fe:01:02:03", "8:0:2b:1:2:3", "08:00:2b:01:02", "08002b01020304", " 08:00:2b:01:02:03 ", "", "zz", "08:00:2b:01-02-03",
	} {
		for _, typ := range []string{"macaddr", "macaddr8"} {
			add("'%s'::%s", a, typ)
			add("'%s'::%s::text", a, typ)
			add("trunc('%s'::%s)", a, typ)
			add("~ '%s'::%s", a, typ)
			for _, op := range []string{"=", "<>", "<", "<=", ">", ">=", "&", "|"} {
				add("c_mac %s '%s'", op, a)
				add("c_mac8 %s '%s'::%s", op, a, typ)
			}
		}
		add("'%s'::macaddr::macaddr8", a)
		add("'%s'::macaddr8::macaddr", a)
		add("macaddr8_set7bit('%s')", a)
	}
	for _, x := range []string{"c_inet", "c_cidr", "c_mac", "c_mac8"} {
		for _, f := range []string{
			"%s::text", "%s::varchar(6)", "%s::bpchar", "%s || 'x'", "'x' || %s", "concat(%s, '-')", "%s::inet", "%s::cidr", "%s::macaddr", "%s::macaddr8", "ARRAY[%s]::text[]", "ARRAY[%[1]s, NULL] @> ARRAY[%[1]s]",
			"%s IN ('10.0.0.1', '::1')", "greatest(%[1]s, %[1]s)", "(%s)::text LIKE '10.%%'", "host(%s)", "abbrev(%s)", "network(%s) = c_cidr", "set_masklen(%s, c_int4)", "%s + c_int8", "c_int8 + %s", "%s - c_int8", "%[1]s - c_inet", "trunc(%s)",
			"%[1]s = c_inet", "%[1]s = c_mac", "c_text::inet = %s", "array_to_string(ARRAY[%s], ',')", "coalesce(%s, '10.1.1.1')", "inet_merge(%s, c_inet)", "%s & c_inet", "%s ~ 'a'", "count(%s)",
		} {
			add(f, x)
		}
	}
	o.checkSome(t, exprs, 8)
	o.report(t)
}
