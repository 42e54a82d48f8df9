#!/usr/bin/env bash
# Builds Kubernetes once, into the folder of what was fetched or built before; prints where it is.
# The version is linked in: helm refuses a server that says v0.0.0.
#
# Usage: build-kubernetes.sh VERSION
set -euo pipefail

folder=${XDG_CACHE_HOME:-$HOME/.cache}/coplace/kubernetes-$1
programs=(kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy)
staging=(api apiextensions-apiserver apimachinery apiserver cli-runtime client-go cloud-provider
    cluster-bootstrap code-generator component-base component-helpers controller-manager cri-api
    cri-client csi-translation-lib dynamic-resource-allocation endpointslice externaljwt kms
    kube-aggregator kube-controller-manager kube-proxy kube-scheduler kubectl kubelet metrics
    mount-utils pod-security-admission sample-apiserver)

build() {
    mkdir -p "$folder/src"
    cd "$folder/src"
    {
        printf 'module build\ngo 1.24.0\nrequire k8s.io/kubernetes %s\n' "$1"
        for part in "${staging[@]}"; do
            echo "replace k8s.io/$part => k8s.io/$part v0.${1#v1.}"
        done
    } >go.mod
    printf '//go:build programs\npackage build\n' >programs.go
    printf 'import _ "k8s.io/kubernetes/cmd/%s"\n' "${programs[@]}" >>programs.go
    go mod tidy -e
    IFS=. read -r major minor _ <<<"${1#v}"
    version=k8s.io/component-base/version
    for program in "${programs[@]}"; do
        go build -o "$folder/$program" -ldflags "-X $version.gitVersion=$1 \
            -X $version.gitMajor=$major -X $version.gitMinor=$minor" "k8s.io/kubernetes/cmd/$program"
    done
}

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ ! -x "$folder/${programs[-1]}" ]; then
    command -v go >/dev/null || { echo "Building Kubernetes needs Go 1.24 or newer: https://go.dev/dl" >&2; exit 1; }
    (build "$@") >&2
fi
echo "$folder"
