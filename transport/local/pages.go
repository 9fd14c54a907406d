package local

// Pages is an array whose memory appears as it is used, a page at a time: what most pairs of an edge of 10,000 by
// 10,000 subtasks never use costs an eighth of a byte.
type Pages[T any] struct {
	n     int
	pages []*[pageLen]T
}

const pageLen = 64

// NewPages makes an array of n zero values.
func NewPages[T any](n int) Pages[T] { return Pages[T]{n: n} }

// Len is the number of values.
func (p *Pages[T]) Len() int { return p.n }

// Get is value i; the zero value where nothing was set.
func (p *Pages[T]) Get(i int) (v T) {
	if i/pageLen < len(p.pages) && p.pages[i/pageLen] != nil {
		return p.pages[i/pageLen][i%pageLen]
	}
	return v
}

// Set sets value i.
func (p *Pages[T]) Set(i int, v T) {
	if p.pages == nil {
		p.pages = make([]*[pageLen]T, (p.n+pageLen-1)/pageLen)
	}
	if p.pages[i/pageLen] == nil {
		p.pages[i/pageLen] = new([pageLen]T)
	}
	p.pages[i/pageLen][i%pageLen] = v
}

// Each calls f with the values of the pages in use, also with zero values on them.
func (p *Pages[T]) Each(f func(i int, v T)) {
	for k, page := range p.pages {
		if page == nil {
			continue
		}
		for j := range page {
			if i := k*pageLen + j; i < p.n {
				f(i, page[j])
			}
		}
	}
}
