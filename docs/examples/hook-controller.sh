#!/bin/sh
# The other side of lifecycle hooks: watches Pods, does what has to be done before one is updated or deleted, and lets it go.
#
# Usage: hook-controller.sh SELECTOR LABEL VALUE, for instance hook-controller.sh app=gateway example.com/in-service true
selector=$1 label=$2 value=$3

while true; do
    kubectl get pods --selector "$selector" --watch \
        --output 'jsonpath={.metadata.name} {.metadata.labels.lifecycle\.apps\.kruise\.io/state}{"\n"}' |
        while read -r pod state; do
            case $state in
                PreparingUpdate | PreparingDelete)
                    # Take the Pod out of service here, and wait until nobody uses it.
                    kubectl label pod "$pod" "$label-"
                    ;;
                Updated)
                    # Look at the Pod here, and put it back into service.
                    kubectl label pod "$pod" "$label=$value" --overwrite
                    ;;
            esac
        done
    sleep 1
done
