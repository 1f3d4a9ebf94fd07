package notify

import "sync"

// Var holds a value and wakes those who wait for it to change. The zero Var holds the zero T and is ready to use; it
// must not be copied. A channel is made only while somebody waits, so that an idle Var costs a mutex and a pointer.
type Var[T any] struct {
	mu    sync.Mutex
	value T
	wake  chan struct{} // nil while nobody waits
}

// Get returns the value and a channel that the next Set closes. Because both come from one critical section, "Get,
// look, then wait" cannot miss a change.
func (v *Var[T]) Get() (T, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.wake == nil {
		v.wake = make(chan struct{})
	}
	return v.value, v.wake
}

// Load returns the value alone.
func (v *Var[T]) Load() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value
}

// Set stores a value and wakes every waiter.
func (v *Var[T]) Set(value T) {
	v.mu.Lock()
	v.value = value
	v.wakeLocked()
	v.mu.Unlock()
}

// Update replaces the value by what f makes of it, and wakes every waiter when f reports a change.
// f runs under the Var's lock: it must be quick and must not use the Var.
func (v *Var[T]) Update(f func(T) (T, bool)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next, changed := f(v.value)
	if changed {
		v.value = next
		v.wakeLocked()
	}
}

// Waiters reports whether somebody has asked to be woken since the last change.
func (v *Var[T]) Waiters() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.wake != nil
}

func (v *Var[T]) wakeLocked() {
	if v.wake != nil {
		close(v.wake)
		v.wake = nil
	}
}
