package yardstick

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// WriteCSV writes about size bytes of rows to path, the same ones every time, without a header: whole numbers, a
// decimal, a float, a date, a timestamp, and text that needs quotes in every fourth row. A file of that size that
// is there already is kept.
func WriteCSV(path string, size int64) error {
	if info, err := os.Stat(path); err == nil && info.Size() >= size && info.Size() < size+1<<12 {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	var b []byte
	state := uint64(88172645463325252)
	next := func(n uint64) uint64 {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		return state % n
	}
	day := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	cities := []string{"Emden", "Husum", "Wismar", "Rostock", "Stralsund", "Cuxhaven"}
	for id, written := int64(1), int64(0); written < size; id++ {
		b = strconv.AppendInt(b[:0], id, 10)
		b = append(b, ',')
		b = strconv.AppendUint(b, next(1000000), 10)
		b = append(b, ',')
		b = appendDecimal(b, next(100000000))
		b = append(b, ',')
		b = strconv.AppendFloat(b, float64(next(1000000))/1000, 'f', 3, 64)
		b = append(b, ',')
		b = day.AddDate(0, 0, int(next(2500))).AppendFormat(b, "2006-01-02")
		b = append(b, ',')
		b = day.Add(time.Duration(next(2e8))*time.Second).AppendFormat(b, "2006-01-02 15:04:05")
		b = append(b, ',')
		b = append(b, cities[next(uint64(len(cities)))]...)
		if id%4 == 0 {
			b = append(b, `,"left at the pier, ""north"" side"`...)
		} else {
			b = append(b, ",plain words without need of quotes"...)
		}
		b = append(b, '\n')
		n, err := w.Write(b)
		if err != nil {
			return err
		}
		written += int64(n)
	}
	return errors.Join(w.Flush(), f.Close())
}

func appendDecimal(b []byte, cents uint64) []byte {
	b = strconv.AppendUint(b, cents/100, 10)
	return append(b, '.', byte('0'+cents/10%10), byte('0'+cents%10))
}

// ReadCSV reads a part of a file with encoding/csv, reusing the record, and does nothing with it. from and to are
// byte offsets at which records begin; to 0 is the end. It returns the number of records.
func ReadCSV(path string, from, to int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return 0, err
	}
	var in io.Reader = f
	if to > 0 {
		in = io.LimitReader(f, to-from)
	}
	r := csv.NewReader(bufio.NewReaderSize(in, 1<<18))
	r.ReuseRecord = true
	var rows int64
	for {
		_, err := r.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		}
		if err != nil {
			return rows, fmt.Errorf("record %d: %w", rows+1, err)
		}
		rows++
	}
}

// RecordAfter is the offset of the first record that begins behind an offset. No text of WriteCSV holds a line end.
func RecordAfter(path string, offset int64) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	line, err := bufio.NewReader(f).ReadSlice('\n')
	return offset + int64(len(line)), err
}
