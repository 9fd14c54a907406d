//go:build linux && amd64

package harness

import (
	"bufio"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"
)

// ahead is the wall clock of a process that has been taken over: where its offset lies.
type ahead struct{ offset int64 }

// shift asks the kernel's clock and adds the offset to the seconds of CLOCK_REALTIME; every other clock is passed on.
//
//	    test edi, edi            which clock
//	    jne  other
//	    push rsi                 where the answer goes; this aligns the stack too
//	    call [rip+real]
//	    pop  rsi
//	    mov  rcx, [rip+offset]
//	    add  [rsi], rcx
//	    ret
//	other:
//	    jmp  [rip+real]
//	    nop
//	real:   .quad                the kernel's clock_gettime
//	offset: .quad                seconds
var shift = []byte{
	0x85, 0xff,
	0x75, 0x13,
	0x56,
	0xff, 0x15, 0x15, 0, 0, 0,
	0x5e,
	0x48, 0x8b, 0x0d, 0x15, 0, 0, 0,
	0x48, 0x01, 0x0e,
	0xc3,
	0xff, 0x25, 0x03, 0, 0, 0,
	0x90, 0x90, 0x90,
}

// ShiftClock makes the wall clock of a running role jump until it is d, whole seconds, ahead of that of the host; its
// monotonic clock is left alone, as when somebody sets the clock of one host. Only what Go asks is shifted.
//
// It puts a few instructions into the child's own copy of the vDSO and points the Go runtime there: so the binary is
// the one that all tests run, and the clock may jump at any moment.
func (f *Fleet) ShiftClock(name string, d time.Duration) {
	f.t.Helper()
	p := f.procs[name]
	pid := p.Cmd.Process.Pid
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	fail := func(err error) {
		f.t.Helper()
		if errors.Is(err, fs.ErrPermission) { // a sandbox that keeps a process from its child
			f.t.Skipf("the clock of %s cannot be shifted here: %v", name, err)
		}
		f.t.Fatalf("the clock of %s cannot be shifted: %v", name, err)
	}
	if err != nil {
		fail(err)
	}
	defer mem.Close()
	write := func(at int64, b []byte) {
		f.t.Helper()
		if _, err := mem.WriteAt(b, at); err != nil {
			fail(fmt.Errorf("writing its memory at %#x: %w", at, err))
		}
	}
	if p.clock == nil {
		image, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if err != nil {
			f.t.Fatal(err)
		}
		pointer, err := clockPointer(image, pid)
		if err != nil {
			fail(err)
		}
		real := make([]byte, 8)
		if _, err := mem.ReadAt(real, pointer); err != nil || binary.LittleEndian.Uint64(real) == 0 {
			fail(fmt.Errorf("its kernel has no vDSO clock (%w)", cmp.Or(err, errors.ErrUnsupported)))
		}
		at, err := vdsoRoom(pid, mem, len(shift)+16)
		if err != nil {
			fail(err)
		}
		write(at, append(append(append([]byte{}, shift...), real...), make([]byte, 8)...))
		write(pointer, binary.LittleEndian.AppendUint64(nil, uint64(at)))
		p.clock = &ahead{at + int64(len(shift)) + 8}
	}
	write(p.clock.offset, binary.LittleEndian.AppendUint64(nil, uint64(d/time.Second)))
}

// clockPointer is where a Go process keeps the address of the clock it asks.
func clockPointer(image string, pid int) (int64, error) {
	file, err := elf.Open(image)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	const name = "runtime.vdsoClockgettimeSym"
	symbols, err := file.Symbols()
	if err != nil {
		return 0, fmt.Errorf("%s has no symbols; build it without -ldflags=-s: %w", image, err)
	}
	for _, s := range symbols {
		if s.Name != name {
			continue
		}
		if file.Type != elf.ET_DYN {
			return int64(s.Value), nil
		}
		base, _, err := mapping(pid, image)
		return base + int64(s.Value), err
	}
	return 0, fmt.Errorf("%s has no %s: this Go release asks for the time in another way, see runtime/vdso_linux_amd64.go", image, name)
}

// vdsoRoom finds n bytes, eight-aligned, at the end of the vDSO that are padding.
func vdsoRoom(pid int, mem *os.File, n int) (int64, error) {
	from, to, err := mapping(pid, "[vdso]")
	if err != nil {
		return 0, err
	}
	b := make([]byte, to-from)
	if _, err := mem.ReadAt(b, from); err != nil {
		return 0, err
	}
	used := len(b)
	for used > 0 && b[used-1] == 0 {
		used--
	}
	used = (used + 64) &^ 7 // zeros at the end of what is used may mean something
	if len(b)-used < n {
		return 0, fmt.Errorf("the vDSO has no room for %d bytes", n)
	}
	return from + int64(used), nil
}

// mapping is the first range of a process's memory with this name.
func mapping(pid int, name string) (from, to int64, err error) {
	file, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		span, rest, _ := strings.Cut(lines.Text(), " ")
		if !strings.HasSuffix(rest, " "+name) {
			continue
		}
		a, b, _ := strings.Cut(span, "-")
		if from, err = strconv.ParseInt(a, 16, 64); err == nil {
			to, err = strconv.ParseInt(b, 16, 64)
		}
		return from, to, err
	}
	return 0, 0, fmt.Errorf("process %d has no %s", pid, name)
}
