"""The steps of `envoy/image/build`, in their order: listing, sources, layers, oci, sbom."""
