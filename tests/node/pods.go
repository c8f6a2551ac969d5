package node

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// The node's view of its pods is a watch of the pods that are bound to it. Each change of a pod, and each new view of
// a runner, queues the pod's name; a bounded number of workers take the names and bring object and runner together.
// No two workers have the same name at a time.
//
// A worker compares the status that is due with the newest object of the watch. After a write it leaves the
// pod alone until the watch has delivered the result, so that a difference is never taken from a state that is over.

// follow begins the watch.
func (n *Node) follow() error {
	watch := cache.NewFilteredListWatchFromClient(n.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll,
		func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", n.config.name).String()
		})
	n.pods = cache.NewSharedInformer(watch, &v1.Pod{}, 0)
	if err := n.pods.SetTransform(slim); err != nil {
		return err
	}
	registration, err := n.pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { n.seen(object.(*v1.Pod)) },
		UpdateFunc: func(before, after any) {
			// A deletion and a creation that the watch missed arrive as one change.
			if old := before.(*v1.Pod); old.UID != after.(*v1.Pod).UID {
				n.lost(old)
			}
			n.seen(after.(*v1.Pod))
		},
		DeleteFunc: func(object any) {
			if unknown, is := object.(cache.DeletedFinalStateUnknown); is {
				object = unknown.Obj
			}
			if pod, is := object.(*v1.Pod); is {
				n.lost(pod)
			}
		},
	})
	if err != nil {
		return err
	}
	go n.pods.Run(n.context.Done())
	if !cache.WaitForCacheSync(n.context.Done(), registration.HasSynced) {
		return errors.New("the watch of pods did not sync")
	}
	return nil
}

// slim drops what the node never reads.
func slim(object any) (any, error) {
	if pod, is := object.(*v1.Pod); is {
		pod.ManagedFields = nil
	}
	return object, nil
}

func nameOf(pod *v1.Pod) string { return pod.Namespace + "/" + pod.Name }

func (n *Node) seen(pod *v1.Pod) { n.queue.Add(nameOf(pod)) }

func (n *Node) lost(pod *v1.Pod) {
	n.mutex.Lock()
	found := n.runners[pod.UID]
	delete(n.runners, pod.UID)
	delete(n.written, pod.UID)
	n.mutex.Unlock()
	if found != nil {
		found.vanish()
		return
	}
	n.freeHollow(pod.UID)
}

// work takes names until the queue is shut.
func (n *Node) work(workers int) {
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				name, shut := n.queue.Get()
				if shut {
					return
				}
				if n.link.wait(n.context) == nil {
					n.attend(name)
				}
				n.queue.Done(name)
			}
		})
	}
	all.Wait()
}

func (n *Node) attend(name string) {
	err := n.sync(name)
	if err == nil {
		n.queue.Forget(name)
		return
	}
	if n.context.Err() == nil {
		klog.InfoS("The pod's status is not written yet", "pod", name, "error", err)
		n.queue.AddRateLimited(name)
	}
}

// sync brings the object and the runner of a pod together.
func (n *Node) sync(name string) error {
	object, present, err := n.pods.GetStore().GetByKey(name)
	if err != nil || !present {
		return err
	}
	pod := object.(*v1.Pod)
	found := n.runner(pod.UID)
	if found == nil {
		if terminal(pod.Status.Phase) {
			if pod.DeletionTimestamp != nil {
				return n.finish(pod)
			}
			return nil
		}
		if n.quick(pod) {
			return n.attendHollow(pod)
		}
		if pod.DeletionTimestamp != nil {
			return n.finish(pod)
		}
		found = n.begin(name, pod)
	}
	found.update(pod)
	v := found.view()
	if err := n.write(pod, v); err != nil {
		return err
	}
	if v.over && pod.DeletionTimestamp != nil {
		return n.finish(pod)
	}
	return nil
}

// exists says that the store still has the pod. What is remembered of a pod is entered after this question, under the
// node's lock: the store forgets a pod before `lost` is called, and `lost` takes the lock, so no entry is left behind.
func (n *Node) exists(pod *v1.Pod) bool {
	object, present, _ := n.pods.GetStore().GetByKey(nameOf(pod))
	return present && object.(*v1.Pod).UID == pod.UID
}

func (n *Node) runner(uid types.UID) *runner {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.runners[uid]
}

// begin gives a pod its runner, or the one that it was given meanwhile.
func (n *Node) begin(name string, pod *v1.Pod) *runner {
	made := newRunner(n, name, pod)
	n.mutex.Lock()
	known := n.runners[pod.UID]
	if known == nil {
		n.runners[pod.UID] = made
	}
	n.mutex.Unlock()
	if known != nil {
		return known
	}
	n.lives.Go(made.live)
	// The pod may have gone between the look at the store and the entry in the table.
	if !n.exists(pod) {
		n.lost(pod)
	}
	return made
}

// write sends the difference between the status that is due and the one that the object has, if there is one.
func (n *Node) write(pod *v1.Pod, v *view) error {
	n.mutex.Lock()
	written := n.written[pod.UID]
	n.mutex.Unlock()
	if version(pod) < written {
		return nil
	}
	due := podStatus(pod, v, time.Now())
	if equality.Semantic.DeepEqual(&pod.Status, &due) {
		return nil
	}
	body, err := difference(pod, due)
	if err != nil || body == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(n.context, 30*time.Second)
	defer cancel()
	result, err := n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body,
		metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// The pod is gone, or another has its name: the watch will say so.
		return nil
	case err != nil:
		return err
	}
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.exists(pod) {
		n.written[pod.UID] = version(result)
	}
	return nil
}

// difference is the patch of a status, good for this pod only: nothing if there is no difference.
func difference(pod *v1.Pod, due v1.PodStatus) ([]byte, error) {
	before, err := json.Marshal(&v1.Pod{Status: pod.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(&v1.Pod{Status: due})
	if err != nil {
		return nil, err
	}
	patch, err := strategicpatch.CreateTwoWayMergeMapPatch(toMap(before), toMap(after), v1.Pod{})
	if err != nil || len(patch) == 0 {
		return nil, err
	}
	patch["metadata"] = map[string]any{"uid": string(pod.UID)}
	return json.Marshal(patch)
}

func toMap(text []byte) strategicpatch.JSONMap {
	var object map[string]any
	_ = json.Unmarshal(text, &object)
	return object
}

// finish removes the object of a pod of which nothing runs any more.
func (n *Node) finish(pod *v1.Pod) error {
	ctx, cancel := context.WithTimeout(n.context, 30*time.Second)
	defer cancel()
	now := int64(0)
	err := n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func version(pod *v1.Pod) uint64 {
	number, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	return number
}
