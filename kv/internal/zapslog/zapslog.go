// Package zapslog lets etcd, which logs through zap, speak through a slog.Logger.
//
// It owns nothing but the translation. Only warnings and errors cross: etcd's info lines are a
// diary of elections and compactions that no operator of Strait acts on. A nil logger is silence.
package zapslog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a zap logger that hands warnings and errors to lg; nil means silent.
func New(lg *slog.Logger) *zap.Logger {
	if lg == nil {
		return zap.NewNop()
	}
	return zap.New(core{lg: lg})
}

// WithFatal returns lg changed so that its Fatal and Panic end neither the process nor, with a
// stack trace, everything: they hand the cause to f and end the goroutine that called them.
func WithFatal(lg *zap.Logger, f func(error)) *zap.Logger {
	return lg.WithOptions(zap.WithFatalHook(hook(f)), zap.WithPanicHook(hook(f)))
}

type hook func(error)

// OnWrite implements zapcore.CheckWriteHook.
func (h hook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(ce.Message)
	for _, f := range fields {
		if e, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", ce.Message, e)
		}
	}
	h(err)
	runtime.Goexit()
}

type core struct{ lg *slog.Logger }

func level(l zapcore.Level) slog.Level {
	if l >= zapcore.ErrorLevel {
		return slog.LevelError
	}
	return slog.LevelWarn
}

// Enabled implements zapcore.Core.
func (c core) Enabled(l zapcore.Level) bool {
	return l >= zapcore.WarnLevel && c.lg.Enabled(context.Background(), level(l))
}

// With implements zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{lg: c.lg.With(attrs(fields)...)}
}

// Check implements zapcore.Core.
func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core.
func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	c.lg.Log(context.Background(), level(e.Level), "etcd", append([]any{"what", e.Message}, attrs(fields)...)...)
	return nil
}

// Sync implements zapcore.Core.
func (core) Sync() error { return nil }

func attrs(fields []zapcore.Field) []any {
	enc := zapcore.NewMapObjectEncoder()
	out := make([]any, 0, 2*len(fields))
	for _, f := range fields {
		f.AddTo(enc)
		if v, ok := enc.Fields[f.Key]; ok {
			out = append(out, f.Key, v)
		}
	}
	return out
}
