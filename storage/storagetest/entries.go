package storagetest

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/shapeserver/shapeserver/shape"
	"github.com/shapeserver/shapeserver/shapelog"
	"github.com/shapeserver/shapeserver/storage"
)

func testRanges(t *testing.T, s storage.Store) {
	type row struct {
		after, end string
		closed     bool
	}
	check := func(l storage.Log, when string, rows ...row) {
		t.Helper()
		for _, r := range rows {
			end, closed := l.Range(at(t, r.after))
			require.Equal(t, r.end, end.String(), "%s: after %s", when, r.after)
			require.Equal(t, r.closed, closed, "%s: after %s, closed", when, r.after)
		}
	}
	l := create(t, s, "1-1")
	check(l, "pending",
		row{"-1", "0_0", false}, row{"0_0", "0_1", false}, row{"0_7", "0_8", false}, row{"0_inf", "0_inf", false})
	w := begin(t, l)
	check(l, "writing",
		row{"-1", "0_0", false}, row{"0_0", "0_1", false}, row{"0_7", "0_8", false})
	require.NoError(t, w.Write(item(1, 1200)))
	require.NoError(t, w.Write(item(2, 50)))
	check(l, "writing the second chunk",
		row{"-1", "0_0", true}, row{"0_0", "0_1", false}, row{"0_1", "0_2", false}, row{"0_7", "0_8", false})
	require.NoError(t, w.Finish(snapshotEnd))
	check(l, "no changes",
		row{"-1", "0_0", true}, row{"0_0", "0_1", true}, row{"0_1", "0_inf", false}, row{"0_7", "0_inf", false},
		row{"0_inf", "0_inf", false}, row{"9_0", "0_inf", false})
	appendAll(t, l, entry(10, 0, 400), entry(10, 4, 700), entry(12, 2, 100))
	check(l, "a closed chunk and a tail",
		row{"-1", "0_0", true}, row{"0_0", "0_1", true}, row{"0_1", "10_4", true}, row{"0_7", "10_4", true},
		row{"0_inf", "10_4", true}, row{"9_0", "10_4", true}, row{"10_0", "10_4", true}, row{"10_3", "10_4", true},
		row{"10_4", "12_2", false}, row{"10_5", "12_2", false}, row{"11_inf", "12_2", false}, row{"12_1", "12_2", false},
		row{"12_2", "12_2", false}, row{"99_0", "12_2", false})
	require.NoError(t, l.Append([]shapelog.Entry{entry(13, 0, 2000)}))
	check(l, "a chunk that is not committed", row{"10_4", "12_2", false}, row{"12_2", "12_2", false})
	require.NoError(t, l.Commit())
	check(l, "a closed chunk at the head", row{"10_4", "13_0", true}, row{"12_2", "13_0", true}, row{"13_0", "13_0", false})
	require.Empty(t, read(t, l, at(t, "99_0"), at(t, "13_0")))
	require.Empty(t, read(t, l, at(t, "13_0"), at(t, "13_0")))
}

// someEntries makes transactions of uneven sizes.
func someEntries(n int) []shapelog.Entry {
	var es []shapelog.Entry
	tx := uint64(1000)
	for i := range n {
		if i%7 == 0 || i%11 == 3 {
			tx += uint64(i%13) + 1
		}
		es = append(es, shapelog.Entry{Offset: shapelog.At(tx, uint64(2*i)), JSON: item(i, 20+i*37%400)})
	}
	return es
}

func testChunkedRanges(t *testing.T, s storage.Store) {
	l := complete(t, create(t, s, "1-1"))
	es := someEntries(200)
	var ends []shapelog.Offset
	n := 0
	for i := range es {
		if n += len(es[i].JSON) + 1; n >= ChunkBytes {
			ends, n = append(ends, es[i].Offset), 0
		}
	}
	for i := 0; i < len(es); i += 17 {
		appendAll(t, l, es[i:min(i+17, len(es))]...)
	}
	after := shapelog.SnapshotEnd
	for _, want := range ends {
		end, closed := l.Range(after)
		require.Equal(t, want, end)
		require.True(t, closed)
		after = end
	}
	end, closed := l.Range(after)
	require.Equal(t, es[len(es)-1].Offset, end)
	require.False(t, closed)
	var all []string
	for _, p := range walk(t, l)[1:] {
		all = append(all, p.Body)
	}
	require.Equal(t, joinEntries(es), join(toBytes(all)...))
}

func toBytes(ss []string) (bs [][]byte) {
	for _, s := range ss {
		bs = append(bs, []byte(s))
	}
	return bs
}

// testEveryPart reads from behind, before and between all entries.
func testEveryPart(t *testing.T, s storage.Store) {
	l := complete(t, create(t, s, "1-1"))
	es := someEntries(120)
	appendAll(t, l, es...)
	CheckEntries(t, l, es)
}

// CheckEntries reads every part of a log that has exactly these entries, from offsets that are and are not entries.
func CheckEntries(t *testing.T, l storage.Log, es []shapelog.Entry) {
	t.Helper()
	afters := []shapelog.Offset{shapelog.SnapshotEnd, shapelog.At(1, 0)}
	for i := 0; i < len(es); i += 1 + len(es)/300 { // of very many, some
		o := es[i].Offset
		afters = append(afters, o, shapelog.At(o.Tx(), o.Op()+1), shapelog.At(o.Tx()-1, 1<<40))
	}
	for _, after := range afters {
		end, _ := l.Range(after)
		var want []shapelog.Entry
		for _, e := range es {
			if e.Offset.Compare(after) > 0 && e.Offset.Compare(end) <= 0 {
				want = append(want, e)
			}
		}
		require.Equal(t, joinEntries(want), read(t, l, after, end), "(%s, %s]", after, end)
	}
	if len(es) > 0 { // also what Range never gives: all of it at once
		require.Equal(t, joinEntries(es), read(t, l, shapelog.SnapshotEnd, es[len(es)-1].Offset))
		mid := es[len(es)/2].Offset
		require.Equal(t, joinEntries(es[len(es)/3+1:len(es)/2+1]), read(t, l, es[len(es)/3].Offset, mid))
	}
}

func testCommit(t *testing.T, s storage.Store) {
	l := complete(t, create(t, s, "1-1"))
	require.NoError(t, l.Commit(), "nothing to commit")
	require.NoError(t, l.Append(nil))
	require.NoError(t, l.Append([]shapelog.Entry{entry(5, 0, 50)}))
	require.NoError(t, l.Append([]shapelog.Entry{entry(5, 2, 50), entry(5, 4, 2000)}))
	st, changed := l.State()
	require.Equal(t, shapelog.SnapshotEnd, st.Last)
	end, _ := l.Range(shapelog.SnapshotEnd)
	require.Equal(t, shapelog.SnapshotEnd, end)
	requireAsleep(t, changed)
	require.NoError(t, l.Commit())
	requireWoken(t, changed)
	st, changed = l.State()
	require.Equal(t, shapelog.At(5, 4), st.Last)
	require.NoError(t, l.Commit())
	requireAsleep(t, changed)
	require.Equal(t, join(item(5000, 50), item(5002, 50), item(5004, 2000)), read(t, l, shapelog.SnapshotEnd, st.Last))
}

func testReplay(t *testing.T, s storage.Store) {
	l := complete(t, create(t, s, "1-1"))
	es := someEntries(60)
	appendAll(t, l, es[:20]...)
	appendAll(t, l, es[:20]...)
	appendAll(t, l, es[10:30]...)
	require.NoError(t, l.Append(es[30:40]))
	require.NoError(t, l.Append(es[30:60]), "the connection was lost within a transaction, which begins again")
	require.NoError(t, l.Commit())
	appendAll(t, l, es[59:]...)
	CheckEntries(t, l, es)
}

func testBadOffsets(t *testing.T, s storage.Store) {
	for i, es := range [][]shapelog.Entry{
		{{Offset: shapelog.Before, JSON: []byte(`{}`)}},
		{{Offset: shapelog.SnapshotChunk(3), JSON: []byte(`{}`)}},
		{{Offset: shapelog.SnapshotEnd, JSON: []byte(`{}`)}},
		{entry(5, 2, 50), entry(5, 0, 50)},
		{entry(5, 2, 50), entry(5, 2, 50)},
	} {
		l := complete(t, create(t, s, shape.Handle(fmt.Sprintf("%d-1", i))))
		require.Error(t, l.Append(es))
		require.Error(t, l.Append([]shapelog.Entry{entry(9, 0, 50)}), "after an error the log takes no more")
		require.Error(t, l.Commit())
		st, _ := l.State()
		require.Equal(t, shapelog.SnapshotEnd, st.Last)
		require.NoError(t, st.Err, "what is there can be read")
	}
}

func testBigTransaction(t *testing.T, s storage.Store) {
	l := complete(t, create(t, s, "1-1"))
	appendAll(t, l, entry(3, 0, 100))
	var es []shapelog.Entry
	for i := range uint64(40) {
		part := []shapelog.Entry{entry(9, 4*i, 20_000), entry(9, 4*i+2, 100+int(i))} //nolint:gosec // small numbers
		es = append(es, part...)
		require.NoError(t, l.Append(part))
	}
	st, _ := l.State()
	require.Equal(t, shapelog.At(3, 0), st.Last)
	require.NoError(t, s.Sync())
	require.NoError(t, l.Commit())
	CheckEntries(t, l, append([]shapelog.Entry{entry(3, 0, 100)}, es...))
	appendAll(t, l, entry(10, 0, 100))
	require.Equal(t, string(entry(10, 0, 100).JSON), read(t, l, es[len(es)-1].Offset, shapelog.At(10, 0)))
}

func testCommitWakes(t *testing.T, s storage.Store) {
	l := complete(t, create(t, s, "1-1"))
	done := make(chan uint64)
	go func() { // a client that follows the log
		after := shapelog.SnapshotEnd
		var seen uint64
		for seen < 200 {
			st, changed := l.State()
			if st.Last == after {
				<-changed
				continue
			}
			end, _ := l.Range(after)
			b, err := l.Read(t.Context(), after, end)
			if err != nil {
				t.Errorf("read: %v", err)
				break
			}
			var buf bytes.Buffer
			if _, err := b.WriteTo(&buf, nil); err != nil || buf.Len() == 0 {
				t.Errorf("read (%s, %s]: %d bytes, %v", after, end, buf.Len(), err)
				break
			}
			_ = b.Close()                                            // only memory
			seen += uint64(bytes.Count(buf.Bytes(), []byte(`"n":`))) //nolint:gosec // a count
			after = end
		}
		done <- seen
	}()
	for i := range uint64(200) {
		appendAll(t, l, entry(10+i, 0, 40+int(i)%300)) //nolint:gosec // small numbers
	}
	require.Equal(t, uint64(200), <-done)
}

// testNewest reads what a waiting client is likely to ask for, before and after it is let go of.
func testNewest(t *testing.T, s storage.Store) {
	l := complete(t, create(t, s, "1-1"))
	es := someEntries(300)
	for i := 0; i < len(es); i += 3 {
		before, _ := l.State()
		appendAll(t, l, es[i:i+3]...)
		now, _ := l.State()
		require.Equal(t, es[i+2].Offset, now.Last)
		end, _ := l.Range(before.Last)
		all := read(t, l, before.Last, now.Last)
		require.Equal(t, joinEntries(es[i:i+3]), all)
		if i > 30 {
			require.Equal(t, joinEntries(es[i-30:i+3]), read(t, l, es[i-31].Offset, now.Last))
		}
		if trim, ok := l.(storage.Trimmer); ok && i%9 == 0 {
			trim.Trim()
			require.Equal(t, all, read(t, l, before.Last, now.Last))
		}
		require.NotEmpty(t, read(t, l, before.Last, end))
	}
}
