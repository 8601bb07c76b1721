module tidewright/tests/controlplane/kueue

go 1.26.0

require (
	github.com/ray-project/kuberay/ray-operator v1.6.2
	sigs.k8s.io/jobset v0.12.0
	sigs.k8s.io/kueue v0.19.2
	sigs.k8s.io/lws v0.9.0
)
