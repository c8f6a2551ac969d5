package node

import (
	"net/netip"
	"testing"
)

func TestAPlaceIsHeldUntilItIsFreed(t *testing.T) {
	pool := newPlaces(false)
	first, err := pool.take()
	if err != nil {
		t.Fatal(err)
	}
	if lock, err := hold(first.ip); err == nil {
		_ = lock.Close()
		t.Fatalf("%v is held twice", first.ip)
	}
	second, err := pool.take()
	if err != nil || second.ip == first.ip {
		t.Fatalf("%v after %v: %v", second.ip, first.ip, err)
	}
	pool.free(first)
	pool.free(second)
	lock, err := hold(first.ip)
	if err != nil {
		t.Fatalf("%v was freed: %v", first.ip, err)
	}
	_ = lock.Close()
}

func TestThereIsAPlaceWhereverTheSearchBegins(t *testing.T) {
	for _, cursor := range []uint32{0, 0x0000_8000, 0x00FE_FFFF, 0x00FF_FFFF, 0x01FF_FFFF, 0xFFFF_FFFF} {
		pool := &places{cursor: cursor}
		for range 2 {
			found, err := pool.take()
			if err != nil {
				t.Fatalf("from %x: %v", cursor, err)
			}
			if four := found.ip.As4(); four[0] != 127 || four[1] == 0 || four[3] == 0 || four[3] == 255 {
				t.Fatalf("from %x: %v", cursor, found.ip)
			}
			pool.free(found)
		}
	}
}

func TestARecycledPlaceComesBackFirstAndStaysHeld(t *testing.T) {
	pool := newPlaces(true)
	first, _ := pool.take()
	second, _ := pool.take()
	pool.free(first)
	pool.free(second)
	if lock, err := hold(second.ip); err == nil {
		_ = lock.Close()
		t.Fatal("somebody else could take it meanwhile")
	}
	if again, _ := pool.take(); again.ip != second.ip {
		t.Fatalf("got %v, want the last one freed, %v", again.ip, second.ip)
	}
	_ = first.lock.Close()
	_ = second.lock.Close()
}

func TestHollowAddressesOfTwoNodesNeverMeet(t *testing.T) {
	one, _ := newHollowPlaces("", false)
	two, _ := newHollowPlaces("", false)
	defer closeBlocks(one)
	defer closeBlocks(two)
	seen := map[netip.Addr]bool{}
	for range 600 {
		for _, pool := range []*hollowPlaces{one, two} {
			ip, err := pool.take()
			if err != nil {
				t.Fatal(err)
			}
			if four := ip.As4(); seen[ip] || four[1] != 0 || four[2] < 16 || four[3] == 0 || four[3] == 255 {
				t.Fatalf("%v is not one to give out, or was before", ip)
			}
			seen[ip] = true
		}
	}
}

func TestAFreedHollowAddressIsUsedLateOrFirst(t *testing.T) {
	for _, recycle := range []bool{false, true} {
		pool, err := newHollowPlaces("127.200.0.0/29", recycle)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := pool.take()
		second, _ := pool.take()
		pool.free(first)
		pool.free(second)
		pool.free(second)
		next, _ := pool.take()
		if recycle && next != second {
			t.Fatalf("got %v, want the last one freed, %v", next, second)
		}
		if !recycle && (next == first || next == second) {
			t.Fatalf("%v is used again while there are fresh ones", next)
		}
		seen := map[netip.Addr]bool{next: true}
		for range 6 {
			ip, err := pool.take()
			if err != nil || seen[ip] {
				t.Fatalf("%v, %v: seven addresses of a range of eight are for pods, each once", ip, err)
			}
			seen[ip] = true
		}
		if ip, err := pool.take(); err == nil {
			t.Fatalf("there is no eighth, but %v", ip)
		}
	}
}

func TestAnAddressOfAnEarlierLifeIsTakenOnce(t *testing.T) {
	pool, _ := newHollowPlaces("", false)
	defer closeBlocks(pool)
	given, _ := pool.take()
	third := given.As4()[2]
	later := netip.AddrFrom4([4]byte{127, 0, third, 2})
	if pool.adopt(given) {
		t.Fatal("it is in use")
	}
	if !pool.adopt(later) || pool.adopt(later) {
		t.Fatal("it is free, and then it is not")
	}
	if pool.adopt(netip.MustParseAddr("127.1.2.3")) || pool.adopt(netip.MustParseAddr("10.0.20.3")) {
		t.Fatal("that is nobody's hollow address")
	}
	if next, _ := pool.take(); next == later {
		t.Fatal("the adopted address was given to another")
	}
}

func closeBlocks(pool *hollowPlaces) {
	for _, lock := range pool.blocks {
		_ = lock.Close()
	}
}
