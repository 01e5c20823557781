package main

import "sync"

// result is a new address that all proxies have acknowledged which need it.
type result struct {
	Address string `json:"address"`
	Service string `json:"service"`
	At      int64  `json:"at"`     // when the API server showed it, in nanoseconds since 1970
	Last    int64  `json:"last"`   // when the last proxy acknowledged it
	Needed  int    `json:"needed"` // by so many proxies
}

// waiting is a new address that some proxies have not acknowledged yet.
type waiting struct {
	result
	nodes map[string]bool
}

// addresses knows which proxy has which address, since when, and which it should have.
type addresses struct {
	mutex  sync.Mutex
	has    map[string]map[string]*possession // node -> address
	nodes  map[string]map[string]bool        // service -> its connected proxies
	pods   map[string]string                 // address -> the service of the pod there
	needs  map[string]map[string]bool        // service -> the services whose proxies need its addresses
	left   map[string]bool                   // proxies whose pods are gone
	open   map[string]*waiting
	done   []result
	unused int
}

// possession: a proxy may have an address in several resources.
type possession struct {
	times int
	since int64
}

func newAddresses() *addresses {
	return &addresses{has: map[string]map[string]*possession{}, nodes: map[string]map[string]bool{},
		pods: map[string]string{}, open: map[string]*waiting{}, left: map[string]bool{}}
}

// appeared: the API server shows the address of a pod.
func (a *addresses) appeared(address, service string, now int64) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.pods[address] = service
	if a.needs == nil {
		return
	}
	new := &waiting{result{address, service, now, now, 0}, map[string]bool{}}
	for reader := range a.needs[service] {
		for node := range a.nodes[reader] {
			new.Needed++
			if found := a.has[node][address]; found != nil {
				new.Last = max(new.Last, found.since)
			} else {
				new.nodes[node] = true
			}
		}
	}
	if new.Needed == 0 {
		a.unused++
		return
	}
	a.open[address] = new
	a.settle(new)
}

func (a *addresses) settle(each *waiting) {
	if len(each.nodes) == 0 {
		delete(a.open, each.Address)
		a.done = append(a.done, each.result)
	}
}

// gone: there is no such pod any more.
func (a *addresses) gone(address string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	delete(a.pods, address)
	delete(a.open, address)
}

// acknowledged: a proxy has other resources, with these addresses, and no longer with those.
func (a *addresses) acknowledged(node, service string, came, went []string, now int64) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.left[node] {
		return
	}
	if a.nodes[service] == nil {
		a.nodes[service] = map[string]bool{}
	}
	a.nodes[service][node] = true
	own := a.has[node]
	if own == nil {
		own = map[string]*possession{}
		a.has[node] = own
	}
	for _, address := range came {
		if own[address] == nil {
			own[address] = &possession{0, now}
		}
		own[address].times++
		if each := a.open[address]; each != nil && each.nodes[node] {
			delete(each.nodes, node)
			each.Last = now
			a.settle(each)
		}
	}
	for _, address := range went {
		if own[address].times--; own[address].times == 0 {
			delete(own, address)
		}
	}
}

// leave: the pod of a proxy is gone.
func (a *addresses) leave(node string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.left[node] = true
	delete(a.has, node)
	for _, nodes := range a.nodes {
		delete(nodes, node)
	}
	for _, each := range a.open {
		if each.nodes[node] {
			delete(each.nodes, node)
			a.settle(each)
		}
	}
}

// learn: a proxy that has the address of a pod needs those of all pods of that service.
func (a *addresses) learn() map[string]any {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.needs = map[string]map[string]bool{}
	pairs := 0
	for service, nodes := range a.nodes {
		for node := range nodes {
			for address := range a.has[node] {
				owner, known := a.pods[address]
				if !known {
					continue
				}
				pairs++
				if a.needs[owner] == nil {
					a.needs[owner] = map[string]bool{}
				}
				a.needs[owner][service] = true
			}
		}
	}
	needed := 0
	for _, service := range a.pods {
		if a.needs[service] != nil {
			needed++
		}
	}
	return map[string]any{"addresses": len(a.pods), "needed": needed, "services": len(a.needs), "pairs": pairs}
}

// take returns what is complete since the last time, and what is not yet.
func (a *addresses) take() map[string]any {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	done, unused := a.done, a.unused
	a.done, a.unused = []result{}, 0
	if done == nil {
		done = []result{}
	}
	var oldest int64
	for _, each := range a.open {
		if oldest == 0 || each.At < oldest {
			oldest = each.At
		}
	}
	return map[string]any{"done": done, "open": len(a.open), "oldest": oldest, "unused": unused}
}

// find returns the IPv4 addresses in a message, each once: strings of it that consist of digits and dots.
func find(content []byte) []string {
	var found []string
	seen := map[string]bool{}
	for at := 0; at+7 < len(content); at++ {
		size := int(content[at])
		if size < 7 || size > 15 || at+size >= len(content) {
			continue
		}
		text := content[at+1 : at+1+size]
		if isAddress(text) && !seen[string(text)] {
			seen[string(text)] = true
			found = append(found, string(text))
		}
	}
	return found
}

func isAddress(text []byte) bool {
	dots := 0
	for at, each := range text {
		switch {
		case each == '.' && at > 0 && text[at-1] != '.':
			dots++
		case each < '0' || each > '9':
			return false
		}
	}
	return dots == 3 && text[len(text)-1] != '.'
}
