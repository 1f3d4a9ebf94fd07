package replication

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/changes"
)

func testDecoder(o Options) *decoder { return newDecoder(o.withDefaults()) }

// feed decodes messages, which it destroys afterwards as the connection's buffer would, and returns the fragments.
func feed(t testing.TB, d *decoder, messages ...message) []*changes.Fragment {
	t.Helper()
	var fragments []*changes.Fragment
	for _, m := range messages {
		buf := append([]byte(nil), m...)
		f, err := d.decode(t.Context(), buf)
		require.NoError(t, err)
		for i := range buf {
			buf[i] = 0xff
		}
		if f != nil {
			fragments = append(fragments, f)
		}
	}
	return fragments
}

// show writes a change as "update items old(1 a) new(1 b)"; a NULL is -, an unchanged TOAST value ~.
func show(c changes.Change) string {
	row := func(r changes.Row) string {
		var cells []string
		for _, v := range r {
			switch v.Kind {
			case changes.Null:
				cells = append(cells, "-")
			case changes.Unchanged:
				cells = append(cells, "~")
			case changes.Text:
				cells = append(cells, string(v.Bytes))
			default:
				cells = append(cells, fmt.Sprintf("kind %q?", v.Kind))
			}
		}
		return "(" + strings.Join(cells, " ") + ")"
	}
	s := fmt.Sprintf("%d %s %s", c.Index, c.Op, c.Relation.Name)
	if c.Old != nil {
		s += " old" + row(c.Old)
	}
	if c.New != nil {
		s += " new" + row(c.New)
	}
	return s
}

func showAll(fragments []*changes.Fragment) []string {
	var lines []string
	for _, f := range fragments {
		for _, c := range f.Changes {
			lines = append(lines, show(c))
		}
	}
	return lines
}

func TestDecodeTransaction(t *testing.T) {
	d := testDecoder(Options{})
	fragments := feed(t, d,
		beginMessage(0x1_0000_00a0, 4_000_000_000),
		message{'O'}.u64(7).text("upstream"),
		message{'Y'}.u32(99999).text("public").text("mood"),
		relationMessage(11, "public", "items", 'f', "*id", "v", "big"),
		relationMessage(12, "", "pg_thing", 'd', "*id"),
		insertMessage(11, "1", "", nil),
		updateMessage('O', []any{"1", "a", "long"}, []any{"1", nil, unchanged}),
		updateMessage('O', []any{"1", nil, nil}, []any{"1", "b", unchanged}),
		updateMessage(0, nil, []any{"1", "c", unchanged}),
		updateMessage('K', []any{"1", nil, nil}, []any{"2", unchanged, unchanged}),
		updateMessage('K', []any{"1", nil, nil}, []any{unchanged, "x", nil}),
		deleteMessage(11, 'O', "2", "b", nil),
		deleteMessage(12, 'K', "5"),
		truncateMessage(11, 12),
		message{'M'}.u8(1).u64(5).text("app").u32(3).u8('a').u8('b').u8('c'),
		message{'~', 1, 2, 3},
		commitMessage(0x1_0000_00a0, 0x1_0000_00d0),
	)
	require.Len(t, fragments, 1)
	f := fragments[0]
	require.True(t, f.First)
	require.True(t, f.Last)
	require.Equal(t, changes.LSN(0x1_0000_00d0), f.EndLSN)
	require.Equal(t, changes.Txn{
		CommitLSN: 0x1_0000_00a0, Xid: 4_000_000_000, CommitTime: time.Date(2000, 1, 1, 0, 0, 1, 0, time.UTC),
	}, *f.Txn)
	require.Equal(t, []string{
		"0 insert items new(1  -)",
		"1 update items old(1 a long) new(1 - long)",
		"2 update items old(1 - -) new(1 b -)",
		"3 update items new(1 c ~)",
		"4 update items old(1 - -) new(2 ~ ~)", // NULL in a key-only old row means unknown
		"5 update items old(1 - -) new(1 x -)", // a key column is known
		"6 delete items old(2 b -)",
		"7 delete pg_thing old(5)",
		"8 truncate items",
		"9 truncate pg_thing",
	}, showAll(fragments))
	empty := f.Changes[0].New[1]
	require.NotNil(t, empty.Bytes, "an empty text is not NULL")
	require.Equal(t, &changes.Relation{
		OID: 12, Schema: "pg_catalog", Name: "pg_thing", Identity: 'd',
		Columns: []changes.Column{{Name: "id", TypeOID: 25, TypeMod: -1, Key: true}},
	}, f.Changes[7].Relation)
	require.False(t, d.inTransaction())
}

func TestEachAnnouncementOfARelationHasItsOwnPointer(t *testing.T) {
	d := testDecoder(Options{})
	fragments := feed(t, d,
		beginMessage(10, 1),
		relationMessage(11, "public", "items", 'f', "*id"),
		insertMessage(11, "1"),
		relationMessage(11, "public", "items", 'f', "*id"),
		insertMessage(11, "2"),
		relationMessage(11, "public", "items", 'f', "*id", "v"),
		insertMessage(11, "3", "x"),
		commitMessage(10, 20),
	)
	c := fragments[0].Changes
	require.NotSame(t, c[0].Relation, c[1].Relation, "it may have been attached or detached as a partition")
	require.True(t, c[0].Relation.SameAs(c[1].Relation))
	require.False(t, c[1].Relation.SameAs(c[2].Relation))
	require.Len(t, c[0].Relation.Columns, 1, "the old description does not change")
	require.Len(t, c[2].Relation.Columns, 2)
}

func TestSmallTransactionsDoNotShareTheirChanges(t *testing.T) {
	d := testDecoder(Options{})
	feed(t, d, beginMessage(1, 1), relationMessage(11, "public", "items", 'f', "*id"), commitMessage(1, 2))
	var all []*changes.Fragment
	var want []string
	for i := range 500 {
		lsn := changes.LSN(10 * (i + 1))
		id := fmt.Sprint(i)
		f := feed(t, d, beginMessage(lsn, uint32(i)), insertMessage(11, id), insertMessage(11, id+"b"), commitMessage(lsn, lsn+5))
		require.Len(t, f, 1)
		require.Equal(t, len(f[0].Changes), cap(f[0].Changes), "an append by the reader must not reach a neighbour")
		all = append(all, f...)
		want = append(want, "0 insert items new("+id+")", "1 insert items new("+id+"b)")
	}
	require.Equal(t, want, showAll(all))
}

func TestFragmentsAtEveryBatchBoundary(t *testing.T) {
	for n := range 23 {
		d := testDecoder(Options{FragmentChanges: 5})
		msgs := []message{beginMessage(10, 1), relationMessage(11, "public", "items", 'f', "*id")}
		for i := range n {
			msgs = append(msgs, insertMessage(11, fmt.Sprint(i)))
		}
		fragments := feed(t, d, append(msgs, commitMessage(10, 20))...)
		require.Len(t, fragments, max(1, (n+4)/5), "n=%d", n)
		index := uint64(0)
		for i, f := range fragments {
			require.Equal(t, i == 0, f.First)
			require.Equal(t, i == len(fragments)-1, f.Last)
			require.Equal(t, f.Last, f.EndLSN == 20)
			require.Same(t, fragments[0].Txn, f.Txn)
			require.LessOrEqual(t, len(f.Changes), 5)
			require.True(t, n == 0 || len(f.Changes) > 0, "no empty fragment but of an empty transaction")
			for _, c := range f.Changes {
				require.Equal(t, index, c.Index)
				require.Equal(t, fmt.Sprint(index), string(c.New[0].Bytes))
				index++
			}
		}
		require.Equal(t, uint64(n), index)
	}
}

func TestFragmentsAreBoundedInMemory(t *testing.T) {
	// NULLs take a byte each on the wire and a Value each in memory.
	columns, nulls := make([]string, 1000), make([]any, 1000)
	for i := range columns {
		columns[i] = fmt.Sprintf("c%d", i)
	}
	d := testDecoder(Options{FragmentBytes: 1 << 20})
	feed(t, d, beginMessage(10, 1), relationMessage(11, "public", "wide", 'f', columns...))
	for range 200 {
		for _, f := range feed(t, d, insertMessage(11, nulls...)) {
			require.LessOrEqual(t, len(f.Changes)*1000*33, 1<<20+33_000)
		}
	}
	// One change is never divided.
	big := strings.Repeat("x", 3<<20)
	d = testDecoder(Options{FragmentBytes: 1 << 20})
	f := feed(t, d, beginMessage(10, 1), relationMessage(11, "public", "items", 'f', "*id"), insertMessage(11, big),
		insertMessage(11, "2"), insertMessage(11, "3"), commitMessage(10, 20))
	require.Len(t, f, 2)
	require.Len(t, f[0].Changes, 1)
	require.Equal(t, big, string(f[0].Changes[0].New[0].Bytes))
	require.Len(t, f[1].Changes, 2)
}

func TestMalformedMessages(t *testing.T) {
	rel := relationMessage(11, "public", "items", 'f', "*id", "v")
	begun := []message{beginMessage(10, 1), rel}
	for name, tc := range map[string]struct {
		before []message
		bad    message
		want   string
	}{
		"empty":                    {nil, message{}, "byte 0: message ends too early"},
		"begin in a transaction":   {begun, beginMessage(11, 2), "transaction begins inside another"},
		"begin cut short":          {nil, beginMessage(10, 1)[:15], "ends too early"},
		"begin too long":           {nil, beginMessage(10, 1).u8(0), "bytes after the message's end"},
		"commit alone":             {nil, commitMessage(10, 20), "commit outside a transaction"},
		"commit of another":        {begun, commitMessage(12, 20), "another transaction"},
		"row outside":              {nil, insertMessage(11, "1", "2"), "change outside a transaction"},
		"truncate outside":         {nil, truncateMessage(11), "change outside a transaction"},
		"unknown relation":         {begun, insertMessage(12, "1"), "relation was not announced"},
		"unknown relation cut off": {begun, truncateMessage(11, 12), "relation was not announced"},
		"too few columns":          {begun, insertMessage(11, "1"), "another number of columns"},
		"binary value":             {begun, message{'I'}.u32(11).u8('N').u16(2).u8('n').u8('b').u32(0), "unknown kind of column"},
		"value too long":           {begun, message{'I'}.u32(11).u8('N').u16(2).u8('n').u8('t').u32(0xffffffff), "ends too early"},
		"no new row":               {begun, message{'I'}.u32(11).u8('K').tuple("1", "2"), "no new row"},
		"delete without old":       {begun, message{'D'}.u32(11).u8('N').tuple("1", "2"), "delete without an old row"},
		"truncate count":           {begun, message{'T'}.u32(1 << 30).u8(0).u32(11), "not as long as its number of relations"},
		"relation without end":     {nil, message{'R'}.u32(11).text("public").u8('x'), "string without an end"},
		"relation column count":    {nil, message{'R'}.u32(11).text("public").text("x").u8('f').u16(60000), "too short for its number of columns"},
	} {
		t.Run(name, func(t *testing.T) {
			d := testDecoder(Options{})
			feed(t, d, tc.before...)
			f, err := d.decode(t.Context(), tc.bad)
			require.Nil(t, f)
			var decodeErr *DecodeError
			require.ErrorAs(t, err, &decodeErr)
			require.ErrorContains(t, err, tc.want)
			require.Equal(t, len(tc.bad), decodeErr.Size)
			require.LessOrEqual(t, decodeErr.Pos, len(tc.bad))
		})
	}
}

func TestEveryPrefixOfAMessageIsRefused(t *testing.T) {
	whole := []message{
		beginMessage(10, 1),
		relationMessage(11, "public", "items", 'f', "*id", "v"),
		insertMessage(11, "1", nil),
		updateMessage('O', []any{"1", "a"}, []any{"2", unchanged}),
		deleteMessage(11, 'K', "1", nil),
		truncateMessage(11, 11),
		commitMessage(10, 20),
	}
	for i, m := range whole {
		for n := range m {
			d := testDecoder(Options{})
			feed(t, d, whole[:i]...)
			_, err := d.decode(t.Context(), m[:n:n])
			var decodeErr *DecodeError
			require.ErrorAsf(t, err, &decodeErr, "%c cut to %d bytes: %v", m[0], n, err)
		}
	}
}

// FuzzDecode feeds arbitrary messages, each preceded by its length, to one decoder. It must not panic, and gives only
// DecodeErrors, after which its caller throws it away.
func FuzzDecode(f *testing.F) {
	pack := func(messages ...message) (stream []byte) {
		for _, m := range messages {
			stream = append(message(stream).u16(uint16(len(m))), m...)
		}
		return stream
	}
	begin, rel := beginMessage(10, 1), relationMessage(11, "public", "items", 'f', "*id", "v")
	f.Add(pack(begin, rel, insertMessage(11, "1", "a"), commitMessage(10, 20)))
	f.Add(pack(begin, rel, updateMessage('O', []any{"1", "a"}, []any{"1", unchanged}), commitMessage(10, 20)))
	f.Add(pack(begin, rel, updateMessage('K', []any{"1", nil}, []any{"2", "b"}), deleteMessage(11, 'K', "2", nil)))
	f.Add(pack(rel, begin, truncateMessage(11, 11), rel, insertMessage(11, "1", "a"), insertMessage(11, "2", nil)))
	f.Fuzz(func(t *testing.T, stream []byte) {
		d := testDecoder(Options{FragmentChanges: 2})
		var next uint64
		for len(stream) >= 2 {
			n := min(int(stream[0])<<8|int(stream[1]), len(stream)-2)
			msg := stream[2 : 2+n]
			stream = stream[2+n:]
			frag, err := d.decode(t.Context(), msg)
			if err != nil {
				var decodeErr *DecodeError
				require.ErrorAs(t, err, &decodeErr)
				return
			}
			if frag == nil {
				continue
			}
			if frag.First {
				next = 0
			}
			for _, c := range frag.Changes {
				require.Equal(t, next, c.Index)
				next++
				for _, r := range []changes.Row{c.Old, c.New} {
					require.True(t, r == nil || len(r) == len(c.Relation.Columns))
				}
			}
		}
	})
}
