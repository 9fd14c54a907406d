package console

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"strait/plan"
	"strait/plan/option"
	"strait/plan/schema"
	"strait/transport/batch"
	"strait/worker/connector"
	"strait/worker/format/value"
)

func init() {
	connector.RegisterSink(connector.SinkFactory{
		Name: "Console",
		Doc:  "Prints every row to standard output.",
		Options: option.Spec{
			Options: []option.Option{
				{Name: "log.print.data", Type: option.TBool, Default: "true", Doc: "Print the rows; false only takes them."},
				{Name: "log.print.delay.ms", Type: option.TDuration, Default: "0", Doc: "Wait after each row, in milliseconds."},
			},
			Ignored: map[string]string{"Assert": "a sink inside of a sink is not read; put it beside Console"},
		},
		Claims: []string{string(connector.AtLeastOnce), "several tables"},
		New:    newSink,
	})
}

type sink struct {
	print bool
	delay time.Duration
}

func newSink(_ context.Context, c connector.SinkConfig) (connector.Sink, error) {
	return &sink{print: c.Options.Bool("log.print.data"), delay: c.Options.Duration("log.print.delay.ms")}, nil
}

func (s *sink) Claim() connector.Claim { return connector.Claim{Guarantee: connector.AtLeastOnce} }

func (s *sink) NewWriter(_ context.Context, wc connector.WriterContext) (connector.Writer, error) {
	w := &writer{sink: s, out: wc.Stdout}
	for _, sc := range wc.Schemas {
		name := ""
		if len(wc.Schemas) > 1 {
			name = " of " + sc.Table.Path.String()
		}
		w.buf = append(w.buf, "output rowType"+name+": "+columns(sc.Table.Columns)+"\n"...)
		head := fmt.Sprintf(":  SeaTunnelRow#tableId=%s SeaTunnelRow#kind=", appendShown(nil, []byte(sc.Table.Path.String())))
		w.heads = append(w.heads, head)
	}
	w.lead = "subtaskIndex=" + strconv.Itoa(wc.Subtask) + "  rowIndex="
	return w, w.flush(0)
}

// chunk is how much goes out in one Write.
const chunk = 64 << 10

type writer struct {
	*sink
	out   io.Writer
	lead  string   // before the row index
	heads []string // behind it, one a table
	index int64
	buf   []byte // whole lines
	value []byte // one value before its control characters are shown
}

func (w *writer) Write(ctx context.Context, b *batch.Batch) error {
	if !w.print && w.delay == 0 {
		return ctx.Err()
	}
	for i := range b.Rows {
		if w.print {
			if err := w.row(b, i); err != nil {
				return err
			}
		}
		if w.delay > 0 {
			if err := w.flush(0); err != nil {
				return err
			}
			if err := connector.Sleep(ctx, w.delay); err != nil {
				return err
			}
		}
	}
	if err := w.flush(0); err != nil {
		return err
	}
	return ctx.Err()
}

// row appends a line; when the buffer runs over, the lines before it go out.
func (w *writer) row(b *batch.Batch, i int) error {
	from := len(w.buf)
	w.index++
	w.buf = append(w.buf, w.lead...)
	w.buf = strconv.AppendInt(w.buf, w.index, 10)
	w.buf = append(w.buf, w.heads[b.Schema.Index]...)
	w.buf = append(w.buf, b.Kind(i).Long()...)
	w.buf = append(w.buf, " : "...)
	for c, col := range b.Cols {
		if c > 0 {
			w.buf = append(w.buf, ", "...)
		}
		w.value = value.AppendText(w.value[:0], b.Schema.Table.Columns[c].Type, col, i)
		w.buf = appendShown(w.buf, w.value)
	}
	w.buf = append(w.buf, '\n')
	if len(w.buf) > chunk {
		return w.flush(from)
	}
	return nil
}

// flush writes what is buffered. upTo > 0 keeps the line that begins there for the next Write.
func (w *writer) flush(upTo int) error {
	n := len(w.buf)
	if upTo > 0 {
		n = upTo
	}
	if n == 0 {
		return nil
	}
	if _, err := w.out.Write(w.buf[:n]); err != nil {
		return fmt.Errorf("print to standard output: %w", err)
	}
	w.buf = append(w.buf[:0], w.buf[n:]...)
	return nil
}

func (w *writer) Prepare(ctx context.Context, _ plan.CheckpointID) ([][]byte, error) {
	return nil, ctx.Err()
}

func (w *writer) Close() error { return nil }

// appendShown appends a text with its control characters shown.
func appendShown(dst, text []byte) []byte {
	clean := true
	for _, c := range text {
		if c < 0x20 || c == 0x7f || c == 0xc2 { // 0xc2 leads the control characters U+0080 to U+009F
			clean = false
			break
		}
	}
	if clean {
		return append(dst, text...)
	}
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < 0x20 || r >= 0x7f && r < 0xa0:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		default:
			dst = append(dst, text[:n]...)
		}
		text = text[n:]
	}
	return dst
}

// columns writes name<TYPE>, name<TYPE>.
func columns(cols []schema.Column) string {
	parts := make([]string, len(cols))
	for i, c := range cols {
		parts[i] = fmt.Sprintf("%s<%s>", appendShown(nil, []byte(c.Name)), typeName(c.Type))
	}
	return strings.Join(parts, ", ")
}

// typeName writes the type words large, as SeaTunnel does, and leaves the names in rows alone.
func typeName(t schema.Type) string {
	word := strings.ToUpper(t.Kind.String())
	switch t.Kind {
	case schema.Array:
		return word + "<" + typeName(*t.Elem) + ">"
	case schema.Map:
		return word + "<" + typeName(*t.Key) + ", " + typeName(*t.Elem) + ">"
	case schema.Row:
		return word + "<" + columns(t.Fields) + ">"
	case schema.Decimal:
		return fmt.Sprintf("%s(%d, %d)", word, t.Precision, t.Scale)
	}
	return word
}
