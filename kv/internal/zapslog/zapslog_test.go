package zapslog_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"

	"strait/kv/internal/zapslog"
)

func TestOnlyWhatSomebodyActsOn(t *testing.T) {
	var buf bytes.Buffer
	lg := zapslog.New(slog.New(slog.NewTextHandler(&buf, nil))).With(zap.String("member", "m1"))
	lg.Info("elected")
	lg.Warn("slow", zap.Int("ms", 120))
	lg.Error("broken", zap.Error(errors.New("disk")))
	got := buf.String()
	for _, want := range []string{"level=WARN", "what=slow", "ms=120", "level=ERROR", "error=disk", "member=m1"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "elected") {
		t.Errorf("info crossed: %s", got)
	}
	zapslog.New(nil).Error("silence")
}

func TestFatalEndsOneGoroutine(t *testing.T) {
	for _, silent := range []*slog.Logger{nil, slog.New(slog.DiscardHandler)} {
		for name, die := range map[string]func(*zap.Logger, string, ...zap.Field){"fatal": (*zap.Logger).Fatal, "panic": (*zap.Logger).Panic} {
			causes := make(chan error, 1)
			lg := zapslog.WithFatal(zapslog.New(silent), func(err error) { causes <- err })
			disk := errors.New("disk full")
			after := true
			done := make(chan struct{})
			go func() {
				defer close(done)
				die(lg, "save", zap.String("path", "x"), zap.Error(disk))
				after = false
			}()
			<-done
			if err := <-causes; !errors.Is(err, disk) || err.Error() != "save: disk full" || !after {
				t.Errorf("%s: %v, ended %v", name, err, after)
			}
		}
	}
}
