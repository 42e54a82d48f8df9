#!/usr/bin/env bash
# Builds Kubernetes and etcd once, into the folder of what was fetched or built before; prints where
# they are. The version is linked in: helm refuses a server that says v0.0.0.
#
# Usage: build-kubernetes.sh VERSION ETCD_VERSION
set -euo pipefail

folder=${XDG_CACHE_HOME:-$HOME/.cache}/coplace/kubernetes-$1
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)
staging=(api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider
    cluster-bootstrap code-generator component-base component-helpers controller-manager cri-api
    cri-client csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms
    kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics
    mount-utils pod-security-admission sample-apiserver)

# go.mod and the imports of a module that has these programs as its parts.
module() {
    mkdir -p "$folder/src/$1"
    cd "$folder/src/$1"
    cat >go.mod
}

build() {
    module kubernetes < <(
        printf 'module build\ngo 1.24.0\nrequire k8s.io/kubernetes %s\n' "$1"
        for part in "${staging[@]}"; do
            echo "replace k8s.io/$part => k8s.io/$part v0.${1#v1.}"
        done
    )
    printf '//go:build programs\npackage build\n' >programs.go
    printf 'import _ "k8s.io/kubernetes/cmd/%s"\n' "${programs[@]}" >>programs.go
    go mod tidy -e
    IFS=. read -r major minor _ <<<"${1#v}"
    version=k8s.io/component-base/version
    for program in "${programs[@]}"; do
        go build -o "$folder/$program" -ldflags "-X $version.gitVersion=$1 \
            -X $version.gitMajor=$major -X $version.gitMinor=$minor" "k8s.io/kubernetes/cmd/$program"
    done

    module etcd < <(printf 'module build\ngo 1.23.0\nrequire go.etcd.io/etcd/server/v3 %s\n' "$2")
    printf 'package main\nimport ("os"; "go.etcd.io/etcd/server/v3/etcdmain")\nfunc main() { etcdmain.Main(os.Args) }\n' >main.go
    go mod tidy -e
    go build -o "$folder/etcd" .
}

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ ! -x "$folder/etcd" ]; then
    command -v go >/dev/null || { echo "Building Kubernetes needs Go 1.24 or newer: https://go.dev/dl" >&2; exit 1; }
    (build "$@") >&2
fi
echo "$folder"
