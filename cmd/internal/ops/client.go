package ops

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"strait/plan"
)

// Client asks the operations ports of roles. Close it at the end.
type Client struct{ http *http.Client }

// Bounds of Client.
const (
	dialWithin = 2 * time.Second
	maxAnswer  = 1 << 20
	silence    = 3 * logAlive // a stream without even an empty line is dead
)

// NewClient makes one.
func NewClient() *Client {
	return &Client{&http.Client{Transport: &http.Transport{
		DialContext:           (&net.Dialer{Timeout: dialWithin}).DialContext,
		ResponseHeaderTimeout: 5 * time.Second, MaxIdleConnsPerHost: 1, IdleConnTimeout: 10 * time.Second, DisableCompression: true,
	}}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) get(ctx context.Context, addr, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, fmt.Errorf("operations address %q: %w", addr, err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", addr, plain(ctx, err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	if resp.StatusCode == http.StatusNotFound {
		return nil, fmt.Errorf("%s does not know %s: it is of an older version, or another program", addr, path)
	}
	return nil, fmt.Errorf("%s answers %s: %s", addr, resp.Status, strings.TrimSpace(string(text)))
}

// plain leaves out the address, which the caller names, and says deadline in words.
func plain(ctx context.Context, err error) error {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &op) && op.Timeout():
		return errors.New("not in time")
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &op):
		return op.Err
	}
	return err
}

// About asks a process who it is.
func (c *Client) About(ctx context.Context, addr string) (*About, error) {
	resp, err := c.get(ctx, addr, "/about")
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	a := new(About)
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(a); err != nil {
		return nil, fmt.Errorf("%s: its answer to /about is not readable: %w", addr, err)
	}
	return a, nil
}

// Skew is how far the clock of another process is ahead of this host's, and by how much that can be wrong: half of
// the round trip in which it was asked.
type Skew struct{ Ahead, Within time.Duration }

// Skew compares clocks; of several round trips the shortest counts.
func (c *Client) Skew(ctx context.Context, addr string) (Skew, error) {
	var best Skew
	for i := range 3 {
		began := time.Now()
		resp, err := c.get(ctx, addr, "/time")
		if err != nil {
			return Skew{}, err
		}
		text, err := io.ReadAll(io.LimitReader(resp.Body, 128))
		_ = resp.Body.Close()
		took := time.Since(began) // by the monotonic clock
		if err != nil {
			return Skew{}, fmt.Errorf("%s: %w", addr, err)
		}
		there, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(text)))
		if err != nil {
			return Skew{}, fmt.Errorf("%s: its answer to /time is not a time", addr)
		}
		if s := (Skew{there.Sub(began.Round(0).Add(took / 2)), took / 2}); i == 0 || s.Within < best.Within {
			best = s
		}
	}
	return best, nil
}

// Record is a log record as it came.
type Record struct {
	Seq   uint64    `json:"seq"`
	Lost  bool      `json:"lost"` // no record: some before the next one were pushed out
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	Line  []byte    `json:"-"` // the whole JSON object; seq stands first
}

// LogStream is the answer of a process to a Query.
type LogStream struct {
	// Process is the life of the process that answers.
	Process string
	// Ahead is how far its clock is ahead of this host's, roughly.
	Ahead time.Duration

	addr   string
	ctx    context.Context // of the request
	cancel context.CancelFunc
	body   io.ReadCloser
	lines  *bufio.Reader
	watch  *time.Timer // ends a stream that has gone silent
}

// Logs opens a stream. Next is called until it fails, then Close.
func (c *Client) Logs(ctx context.Context, addr string, job plan.JobID, q Query) (*LogStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	began := time.Now()
	resp, err := c.get(ctx, addr, "/logs/"+string(job)+"?"+q.values().Encode())
	if err != nil {
		cancel()
		return nil, err
	}
	s := &LogStream{Process: resp.Header.Get(headerProcess), addr: addr, ctx: ctx, cancel: cancel, body: resp.Body, lines: bufio.NewReaderSize(resp.Body, 4<<10)}
	if there, err := time.Parse(time.RFC3339Nano, resp.Header.Get(headerTime)); err == nil {
		s.Ahead = there.Sub(began.Round(0).Add(time.Since(began) / 2))
	}
	s.watch = time.AfterFunc(silence, cancel)
	return s, nil
}

// Next waits for the next record; io.EOF at the end.
func (s *LogStream) Next() (Record, error) {
	for {
		line, err := s.line()
		if err != nil {
			return Record{}, err
		}
		s.watch.Reset(silence)
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return Record{}, fmt.Errorf("%s: a line of its log is not readable: %w", s.addr, err)
		}
		r.Line = line
		return r, nil
	}
}

// line reads one line, of at most twice what a process keeps of a record.
func (s *LogStream) line() ([]byte, error) {
	var line []byte
	for {
		part, err := s.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(line, "\n"), nil
		case errors.Is(err, bufio.ErrBufferFull) && len(line) < 2*mostRecord:
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("%s: a line of its log has no end", s.addr)
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		default:
			return nil, fmt.Errorf("%s: %w", s.addr, plain(s.ctx, err))
		}
	}
}

// Close ends the stream.
func (s *LogStream) Close() {
	s.watch.Stop()
	s.cancel()
	_ = s.body.Close()
}
