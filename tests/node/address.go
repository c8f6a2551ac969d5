package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
)

// Whoever listens here holds the address: the scenarios of the tests follow the same rule.
const lockPort = 31999

var errNoAddress = errors.New("no free address in 127/8")

// place is an address of 127/8 that is held against everybody else on this machine.
type place struct {
	ip   netip.Addr
	lock net.Listener
}

// places hands out addresses for pods with processes.
type places struct {
	mutex  sync.Mutex
	cursor uint32
	// Freed places, kept and given out again, the last one first. Otherwise the lock is let go at once.
	recycle bool
	spare   []place
}

func newPlaces(recycle bool) *places {
	// Processes start far apart; the lock decides where they meet.
	return &places{cursor: uint32(os.Getpid()) * 0x9E3779B1 >> 8, recycle: recycle}
}

func (p *places) take() (place, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if last := len(p.spare) - 1; last >= 0 {
		found := p.spare[last]
		p.spare = p.spare[:last]
		return found, nil
	}
	for range 10_000 {
		host := p.cursor
		p.cursor++
		// 127.0/16 is where everybody else's servers are, and hollow pods; .0 and .255 confuse readers.
		second, third, fourth := byte(1+(host>>16)%255), byte(host>>8), byte(host)
		if fourth == 0 || fourth == 255 {
			continue
		}
		ip := netip.AddrFrom4([4]byte{127, second, third, fourth})
		if lock, err := hold(ip); err == nil {
			return place{ip, lock}, nil
		}
	}
	return place{}, errNoAddress
}

func (p *places) free(freed place) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.recycle {
		p.spare = append(p.spare, freed)
		return
	}
	_ = freed.lock.Close()
}

func hold(ip netip.Addr) (net.Listener, error) {
	return net.Listen("tcp4", net.JoinHostPort(ip.String(), strconv.Itoa(lockPort)))
}

// hollowPlaces hands out addresses on which nobody listens. Without a range of its own it takes blocks of 254
// addresses from 127.0.16.0 to 127.0.255.0, where no place is ever taken, and holds each block by the lock port of its
// last address, so that two nodes of one cluster never give the same address.
type hollowPlaces struct {
	mutex   sync.Mutex
	recycle bool
	limits  netip.Prefix
	next    netip.Addr
	end     netip.Addr
	blocks  map[byte]net.Listener
	used    map[netip.Addr]bool
	freed   []netip.Addr
}

func newHollowPlaces(cidr string, recycle bool) (*hollowPlaces, error) {
	pool := &hollowPlaces{recycle: recycle, blocks: map[byte]net.Listener{}, used: map[netip.Addr]bool{}}
	if cidr == "" {
		return pool, nil
	}
	limits, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("the range of hollow pods: %w", err)
	}
	pool.limits = limits.Masked()
	pool.next = pool.limits.Addr().Next()
	pool.end = netip.Addr{}
	return pool, nil
}

func (p *hollowPlaces) take() (netip.Addr, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.recycle && len(p.freed) > 0 {
		last := len(p.freed) - 1
		ip := p.freed[last]
		p.freed = p.freed[:last]
		p.used[ip] = true
		return ip, nil
	}
	for {
		for p.inside() {
			ip := p.next
			p.next = ip.Next()
			if !p.used[ip] {
				p.used[ip] = true
				return ip, nil
			}
		}
		if len(p.freed) > 0 {
			ip := p.freed[0]
			p.freed = p.freed[1:]
			p.used[ip] = true
			return ip, nil
		}
		if !p.grow() {
			return netip.Addr{}, errNoAddress
		}
	}
}

// inside says that the next address is one to give out.
func (p *hollowPlaces) inside() bool {
	if p.limits.IsValid() {
		return p.next.IsValid() && p.limits.Contains(p.next)
	}
	return p.next.IsValid() && p.next != p.end
}

// grow takes one more block.
func (p *hollowPlaces) grow() bool {
	if p.limits.IsValid() {
		return false
	}
	for step := range 240 {
		third := byte(16 + (os.Getpid()+step)%240)
		if p.blocks[third] == nil && p.block(third) {
			p.next = netip.AddrFrom4([4]byte{127, 0, third, 1})
			p.end = netip.AddrFrom4([4]byte{127, 0, third, 255})
			return true
		}
	}
	return false
}

// block holds a block, if nobody else does.
func (p *hollowPlaces) block(third byte) bool {
	lock, err := hold(netip.AddrFrom4([4]byte{127, 0, third, 255}))
	if err != nil {
		return false
	}
	p.blocks[third] = lock
	return true
}

// adopt takes the address of a hollow pod from an earlier life of this node, if nobody took it since. The rest of its
// block stays unused until the pods of this life are gone.
func (p *hollowPlaces) adopt(ip netip.Addr) bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.used[ip] || !ip.Is4() {
		return false
	}
	if p.limits.IsValid() {
		if !p.limits.Contains(ip) {
			return false
		}
	} else {
		four := ip.As4()
		if four[0] != 127 || four[1] != 0 || four[2] < 16 || p.blocks[four[2]] == nil && !p.block(four[2]) {
			return false
		}
	}
	p.used[ip] = true
	return true
}

func (p *hollowPlaces) free(ip netip.Addr) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.used[ip] {
		delete(p.used, ip)
		p.freed = append(p.freed, ip)
	}
}
