package worker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"strait/kv/record"
	"strait/worker/memory"
)

// hostLoad measures how busy this host is: the cores between two looks at least a second apart, the memory at the
// look. It reads what Linux tells below /proc.
type hostLoad struct {
	proc string // /proc

	mu          sync.Mutex
	at          time.Time // of the last look that counted
	busy, total uint64    // ticks up to then
	cpu         float64   // between the last two
}

// leastSpan is the least time that a share of the cores is taken over.
const leastSpan = time.Second

// look returns the shares in use, 0 to 1.
func (h *hostLoad) look(now time.Time) (cpu, memory float64, err error) {
	busy, total, err := h.ticks()
	if err != nil {
		return 0, 0, err
	}
	if memory, err = h.memory(); err != nil {
		return 0, 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.at.IsZero():
		h.cpu = ratio(busy, total) // since the host began: the best there is
	case now.Sub(h.at) < leastSpan || total <= h.total:
		return h.cpu, memory, nil
	default:
		h.cpu = ratio(busy-min(busy, h.busy), total-h.total)
	}
	h.at, h.busy, h.total = now, busy, total
	return h.cpu, memory, nil
}

func ratio(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return min(float64(part)/float64(whole), 1)
}

// ticks are the sums of the first line of /proc/stat: user nice system idle iowait irq softirq steal.
func (h *hostLoad) ticks() (busy, total uint64, err error) {
	file := filepath.Join(h.proc, "stat")
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	if len(fields) < 5 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("%s does not begin with the line cpu", file)
	}
	for i, f := range fields[1:min(len(fields), 9)] {
		n, err := strconv.ParseUint(f, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", file, err)
		}
		if total += n; i != 3 && i != 4 {
			busy += n
		}
	}
	return busy, total, nil
}

// memory is what of the memory could not be given to somebody who asks for it.
func (h *hostLoad) memory() (float64, error) {
	total, available, err := memory.Info(os.DirFS(h.proc))
	if err != nil {
		return 0, err
	}
	return ratio(uint64(total-min(available, total)), uint64(total)), nil
}

// serveLoad answers GET /load with a record.Load; 503 where the host does not tell.
func (w *Worker) serveLoad(rw http.ResponseWriter, _ *http.Request) {
	cpu, memory, err := w.load.look(time.Now())
	rw.Header().Set("Content-Type", "application/json")
	if err != nil {
		rw.WriteHeader(http.StatusServiceUnavailable)
		_ = json.NewEncoder(rw).Encode(map[string]string{"error": err.Error()})
		return
	}
	_ = json.NewEncoder(rw).Encode(record.Load{CPU: cpu, Memory: memory, Incarnation: w.Incarnation()})
}
