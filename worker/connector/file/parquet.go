package file

import (
	"context"
	"errors"

	"strait/plan/fault"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
)

type parquetSplit struct{}

func (in *input) learnParquet(context.Context, string, *fault.List) error {
	if in.table == nil {
		in.table = &schema.Table{Path: in.given.Path, Columns: []schema.Column{schema.Col(contentColumn, schema.Of(schema.String))}}
	}
	return nil
}

func parquetBorders(Input, found, int64) ([]int64, error) { return nil, errors.New("parquet") }

func (in *input) openParquet(context.Context, *openSplit, *batch.Schema, int64) (*parquetSplit, error) {
	return nil, errors.New("parquet")
}

func (p *parquetSplit) read(context.Context, *reader, *connector.Output) (connector.Progress, error) {
	return connector.Progress{}, nil
}
func (p *parquetSplit) close() error { return nil }

const parquetBuffer = 64 << 20

type parquetOptions struct{}

func (s *sink) parquet(v option.Values, o *output, l *fault.List) {}

func newParquetFile(p *part, o *output) (sinkFile, error) { return nil, errors.New("parquet") }
