package yardstick

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Fill fills Arrow builders with rows of four columns (int64, float64, 12-byte string, timestamp) from a cheap
// generator and drops the arrays, a batch of 8,192 rows at a time.
func Fill(rows int64) int64 {
	ids := array.NewInt64Builder(memory.DefaultAllocator)
	amounts := array.NewFloat64Builder(memory.DefaultAllocator)
	names := array.NewStringBuilder(memory.DefaultAllocator)
	times := array.NewTimestampBuilder(memory.DefaultAllocator, &arrow.TimestampType{Unit: arrow.Microsecond})
	state := uint64(88172645463325252)
	next := func() uint64 {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		return state
	}
	const batch = 8192
	var done, check int64
	var text [12]byte
	for done < rows {
		ids.Reserve(batch)
		for range batch {
			ids.UnsafeAppend(int64(next() >> 1))
		}
		amounts.Reserve(batch)
		for range batch {
			amounts.UnsafeAppend(float64(next()>>11) / (1 << 53))
		}
		names.Reserve(batch)
		names.ReserveData(12 * batch)
		for range batch {
			r := next()
			for i := range text {
				text[i] = 'a' + byte(r%26)
				r /= 26
			}
			names.BinaryBuilder.Append(text[:])
		}
		times.Reserve(batch)
		for range batch {
			times.UnsafeAppend(arrow.Timestamp(next() >> 14))
		}
		a, b, c, d := ids.NewArray(), amounts.NewArray(), names.NewArray(), times.NewArray()
		check += int64(a.Len() + b.Len() + c.Len() + d.Len())
		done += batch
	}
	return check
}
