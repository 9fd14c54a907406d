package ops

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Bounds of /logs. A reader that is slow is waited for with nothing held but its connection; what is pushed out
// meanwhile is lost to it, which it is told.
const (
	logReaders = 64               // at once
	logPiece   = 64 << 10         // bytes between two looks at the log
	logWithin  = 10 * time.Second // for a piece to be taken
	logAlive   = 5 * time.Second  // an empty line at least so often, so that both ends notice a dead peer
)

// Headers of /logs.
const (
	headerProcess = "X-Strait-Process" // Logs.Process
	headerTime    = "X-Strait-Time"    // the clock of the process when it began to answer
)

// Query says which records of a job are wanted.
type Query struct {
	After  uint64     // records behind this number
	Since  time.Time  // not older; zero: all
	Level  slog.Level // at least
	Follow bool       // go on with what comes
}

func (q Query) values() url.Values {
	v := url.Values{}
	if q.After > 0 {
		v.Set("after", strconv.FormatUint(q.After, 10))
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.Level != slog.LevelDebug {
		v.Set("level", q.Level.String())
	}
	if q.Follow {
		v.Set("follow", "1")
	}
	return v
}

func parseQuery(v url.Values) (Query, error) {
	q := Query{Level: slog.LevelDebug}
	var err error
	if s := v.Get("after"); s != "" {
		if q.After, err = strconv.ParseUint(s, 10, 64); err != nil {
			return q, fmt.Errorf("after=%s: not a number of a record", s)
		}
	}
	if s := v.Get("since"); s != "" {
		if q.Since, err = time.Parse(time.RFC3339, s); err != nil {
			return q, fmt.Errorf("since=%s: not an RFC 3339 time", s)
		}
	}
	if s := v.Get("level"); s != "" {
		if err := q.Level.UnmarshalText([]byte(s)); err != nil {
			return q, fmt.Errorf("level=%s: write debug, info, warn or error", s)
		}
	}
	if s := v.Get("follow"); s != "" {
		if q.Follow, err = strconv.ParseBool(s); err != nil {
			return q, fmt.Errorf("follow=%s: write 1 or 0", s)
		}
	}
	return q, nil
}

// serveLogs answers GET /logs/{job}: a JSON object a line, each with its number as seq. {"lost":true} stands where
// records were pushed out before they could be read; an empty line says only that the process is there.
func (s *Server) serveLogs(l *Logs) http.HandlerFunc {
	readers := make(chan struct{}, logReaders)
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r.URL.Query())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case readers <- struct{}{}:
			defer func() { <-readers }()
		default:
			http.Error(w, fmt.Sprintf("%d others read logs here; try again later", logReaders), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		w.Header().Set(headerProcess, l.process)
		w.Header().Set(headerTime, time.Now().UTC().Format(time.RFC3339Nano))
		_ = writeLogs(r.Context(), s.ending, w, l, r.PathValue("job"), q)
	}
}

func writeLogs(ctx context.Context, ending <-chan struct{}, w http.ResponseWriter, l *Logs, job string, q Query) error {
	conn := http.NewResponseController(w)
	alive := time.NewTicker(logAlive)
	defer alive.Stop()
	var piece []byte
	for first := true; ; first = false {
		found, lost, changed := l.read(job, q.After, logPiece)
		piece = piece[:0]
		if lost && (q.After > 0 || !first) {
			piece = append(piece, "{\"lost\":true}\n"...)
		}
		for _, e := range found {
			q.After = e.seq
			if e.level < q.Level || e.at.Before(q.Since) {
				continue
			}
			piece = append(piece, `{"seq":`...)
			piece = strconv.AppendUint(piece, e.seq, 10)
			piece = append(piece, ',')
			piece = append(piece, e.line[1:]...)
		}
		if len(found) == 0 {
			if !q.Follow {
				return nil
			}
			if first {
				piece = append(piece, '\n') // the reader learns that it is served
			} else {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-ending:
					return nil
				case <-changed:
					continue
				case <-alive.C:
					piece = append(piece, '\n')
				}
			}
		}
		if len(piece) == 0 {
			continue
		}
		if err := conn.SetWriteDeadline(time.Now().Add(logWithin)); err != nil {
			return err
		}
		if _, err := w.Write(piece); err != nil {
			return err
		}
		if err := conn.Flush(); err != nil {
			return err
		}
	}
}

// About is what a process says of itself: GET /about.
type About struct {
	Process  string    `json:"process"` // random, of this life
	Role     string    `json:"role"`    // coordinator or worker
	Name     string    `json:"name"`
	Version  string    `json:"version"`
	Protocol [2]int    `json:"protocol"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Started  time.Time `json:"started"`
	Time     time.Time `json:"time"` // of its clock, when it answers
	// NotReady says why the role cannot work now.
	NotReady    string  `json:"notReady,omitempty"`
	Leads       bool    `json:"leads,omitempty"`       // of a coordinator
	Incarnation int64   `json:"incarnation,omitempty"` // of a worker
	Storage     *Folder `json:"storage,omitempty"`
}

// Folder is a folder of checkpoint files as a process sees it.
type Folder struct {
	Path    string `json:"path"`
	Mark    string `json:"mark,omitempty"` // the same wherever it is the same folder
	Problem string `json:"problem,omitempty"`
}

// HandleAbout answers GET /about with what about gives; it has two seconds.
func (s *Server) HandleAbout(about func(ctx context.Context) About) {
	s.Handle("GET /about", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), aboutWithin)
		defer cancel()
		a := about(ctx)
		if err := s.ready(); err != nil {
			a.NotReady = err.Error()
		}
		a.Time = time.Now().UTC()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(a)
	}))
}

// serveTime answers GET /time at once, so that a clock can be compared: RFC 3339 with nanoseconds.
func serveTime(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = fmt.Fprintln(w, time.Now().UTC().Format(time.RFC3339Nano))
}
