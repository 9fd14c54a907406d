//go:build failpoint

package tattle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"strait/checkpoint"
	"strait/plan"
	"strait/plan/option"
	"strait/transport/batch"
	"strait/worker/connector"
)

func init() {
	table := &option.Spec{Options: []option.Option{
		{Name: "table", Type: option.TString, Doc: "A name."},
		{Name: "password", Type: option.TString, Secret: true, Doc: "A secret."},
	}}
	connector.RegisterSink(connector.SinkFactory{
		Name: "Tattle",
		Doc:  "Tells its secrets; for tests of the engine.",
		Options: option.Spec{Options: []option.Option{
			{Name: "url", Type: option.TString, Doc: "May hold user and password."},
			{Name: "username", Type: option.TString, Doc: "No secret."},
			{Name: "password", Type: option.TString, Secret: true, Doc: "A secret."},
			{Name: "passwords", Type: option.TStrings, Secret: true, Doc: "Several of them."},
			{Name: "properties", Type: option.TStringMap, Doc: "A free-form map."},
			{Name: "tables_configs", Type: option.TObjects, Sub: table, Doc: "Tables with a password each."},
			{Name: "sha256", Type: option.TString, Doc: "Of all values joined with line feeds, in hex."},
			{Name: "tell", Type: option.TEnum, Enum: []string{"log", "build", "open", "write", "panic", "prepare", "commit"}, Default: "log", Doc: "Where to fail with all values in the error; log: nowhere."},
		}},
		Claims: []string{string(connector.ExactlyOnce), "several tables"},
		New:    newSink,
	})
}

type sink struct {
	values []string
	want   string
	tell   string
}

func newSink(_ context.Context, c connector.SinkConfig) (connector.Sink, error) {
	v := c.Options
	s := &sink{tell: v.String("tell"), want: v.String("sha256")}
	s.values = append([]string{v.String("url"), v.String("username"), v.String("password")}, v.Strings("passwords")...)
	for _, p := range v.Pairs("properties") {
		s.values = append(s.values, p.Value)
	}
	for _, t := range v.Subs("tables_configs") {
		s.values = append(s.values, t.String("password"))
	}
	if c.Job != "" && s.tell == "build" { // on the worker
		return nil, s.leak("build")
	}
	return s, nil
}

// leak is an error as drivers make them: values plain, quoted and escaped.
func (s *sink) leak(where string) error {
	var escaped []string
	for _, v := range s.values {
		escaped = append(escaped, url.QueryEscape(v), fmt.Sprintf("%q", v))
	}
	return errors.New(where + " failed: " + strings.Join(s.values, " ") + " / " + strings.Join(escaped, " "))
}

func (s *sink) Claim() connector.Claim { return connector.Claim{Guarantee: connector.ExactlyOnce} }

func (s *sink) NewWriter(_ context.Context, wc connector.WriterContext) (connector.Writer, error) {
	if s.tell == "open" {
		return nil, s.leak("open")
	}
	sum := sha256.Sum256([]byte(strings.Join(s.values, "\n")))
	if got := hex.EncodeToString(sum[:]); s.want != "" && got != s.want {
		return nil, fmt.Errorf("the values are others than the test put in: sha256 %s, want %s", got, s.want)
	}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		wc.Log.With("with", s.values[2]).Log(context.Background(), level, "tattle: "+strings.Join(s.values, " "), "values", s.values, "err", s.leak("log"))
	}
	return &writer{s}, nil
}

func (s *sink) NewAggregated(_ context.Context, _ connector.CommitterContext) (connector.Committer, error) {
	return &committer{s}, nil
}

type writer struct{ *sink }

func (w *writer) Write(ctx context.Context, _ *batch.Batch) error {
	switch w.tell {
	case "write":
		return w.leak("write")
	case "panic":
		panic(w.leak("panic").Error())
	}
	return ctx.Err()
}

func (w *writer) Prepare(ctx context.Context, _ plan.CheckpointID) ([][]byte, error) {
	if w.tell == "prepare" {
		return nil, w.leak("prepare")
	}
	return [][]byte{[]byte("1")}, ctx.Err()
}

func (w *writer) Close() error { return errors.New(w.leak("close").Error()) }

type committer struct{ *sink }

func (c *committer) Commit(ctx context.Context, _ []checkpoint.Prepared) error {
	if c.tell == "commit" {
		return c.leak("commit")
	}
	return ctx.Err()
}

func (c *committer) Abandon(context.Context, plan.Attempt, []checkpoint.Prepared) error { return nil }

func (c *committer) Close() error { return nil }
