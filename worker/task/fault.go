package task

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"unicode/utf8"

	"strait/plan"
)

// Fault is an error with the place it happened at.
type Fault struct {
	Group    string // task group; empty for enumerators and committers
	Vertex   plan.VertexID
	Path     string // the vertex as messages name it: sink[0] (Console)
	Position string // where in the input
	Err      error
}

// Error names vertex and position before the cause.
func (f *Fault) Error() string {
	s := f.Path
	if f.Position != "" {
		s += " at " + f.Position
	}
	return s + ": " + f.Err.Error()
}

// Unwrap gives the cause.
func (f *Fault) Unwrap() error { return f.Err }

// errStopped is the cause of the context of an attempt that was told to stop.
var errStopped = errors.New("the attempt was stopped")

// at wraps err with a place, unless it has one.
func at(err error, v *vertex, position string) error {
	var f *Fault
	if err == nil || errors.As(err, &f) {
		return err
	}
	return &Fault{Vertex: v.ID, Path: v.Path, Position: position, Err: err}
}

// showPosition prints what a connector calls a position: text as it is, the rest in hex, both shortened.
func showPosition(split string, position []byte) string {
	s := "split " + strconv.Quote(clip(split))
	if len(position) == 0 {
		return s
	}
	if utf8.Valid(position) && !bytes.ContainsFunc(position, func(r rune) bool { return r < ' ' }) {
		return s + ", position " + clip(string(position))
	}
	return s + ", position 0x" + clip(fmt.Sprintf("%x", position))
}

func clip(s string) string {
	if len(s) > 120 {
		return s[:117] + "..."
	}
	return s
}

// protect runs a plugin's code. A panic of it becomes an error that says whose mistake it is; the stack goes to the
// log, the process lives on.
func protect(log *slog.Logger, what func() string, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(log, what(), p)
		}
	}()
	return f()
}

func panicked(log *slog.Logger, what string, p any) error {
	log.Error("plugin panicked", "what", what, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return fmt.Errorf("BUG: %s panicked: %v; the stack is in the log of this worker", what, p)
}

// stopped says that err is only the echo of the attempt's end.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, errStopped) || errors.Is(err, context.Canceled) || errors.Is(context.Cause(ctx), errStopped))
}
