-- NodePodProbe: a list for the daemon of one node; what probes find is told of the Pods.
return { status = "Healthy", message = "In force" }
