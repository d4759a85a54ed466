package caller

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/brimgo/brim"
)

// Owner is a middleware, as the owner of the names of its policies. Two middlewares of one Limiter
// that use one name share the buckets of their clients: a busy route then drains the bucket of the
// login beside it. So the one that was made later fails, unless its Options.Shared says that this
// is meant.
type Owner struct {
	limiter weak.Pointer[brim.Limiter]
	shared  bool
	made    uint64 // in the order in which middlewares were made
	// known are the names that the owner may use, each with the registry's count of changes.
	known sync.Map
}

// registry has the owners of names. It belongs to the process, because a Limiter does not know its
// middlewares. It keeps neither a Limiter nor a middleware alive.
var registry = names{owners: make(map[ownedName]weak.Pointer[Owner])}

// maxNames is the largest number of names in the registry. Further ones are not compared.
const maxNames = 1000

type names struct {
	mu      sync.Mutex
	owners  map[ownedName]weak.Pointer[Owner]
	made    uint64
	changes atomic.Uint64 // how often a name has passed to an owner that was made earlier
}

type ownedName struct {
	limiter weak.Pointer[brim.Limiter]
	name    string
}

// NewOwner returns the owner for a middleware of a Limiter whose policies have some names, as far
// as they are known. It fails if another one has a name already.
func NewOwner(limiter *brim.Limiter, known []string, shared bool) (*Owner, error) {
	registry.mu.Lock()
	registry.made++
	o := &Owner{limiter: weak.Make(limiter), shared: shared, made: registry.made}
	registry.mu.Unlock()
	registry.forget(nil) // middlewares that nobody uses any more
	for _, name := range known {
		if err := o.Use(name); err != nil {
			registry.forget(o)
			return nil, err
		}
	}
	return o, nil
}

// forget takes the names of o out of the registry, or those of collected owners if o is nil.
func (n *names) forget(o *Owner) {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.owners, func(_ ownedName, owner weak.Pointer[Owner]) bool { return owner.Value() == o })
}

// Use returns an error if a policy of the middleware must not have that name, because it is that of
// another middleware.
func (o *Owner) Use(name string) error {
	changes := registry.changes.Load()
	if at, ok := o.known.Load(name); ok && at == changes {
		return nil
	}
	registry.mu.Lock()
	defer registry.mu.Unlock()
	owned := ownedName{o.limiter, name}
	pointer, taken := registry.owners[owned]
	owner := pointer.Value()
	switch {
	case !taken && len(registry.owners) == maxNames:
		return nil
	case owner == nil:
		registry.owners[owned] = weak.Make(o)
	case owner.made > o.made && !owner.shared: // it has used the name before this one
		registry.owners[owned] = weak.Make(o)
		changes = registry.changes.Add(1)
	case owner.made < o.made && !o.shared:
		return fmt.Errorf("policy %q: another middleware of the same Limiter has a policy of that name, and both "+
			"would share their clients' buckets; give one of them another name, or set Options.Shared if this is meant", name)
	}
	o.known.Store(name, changes)
	return nil
}
