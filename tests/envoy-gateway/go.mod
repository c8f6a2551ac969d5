module sandgate.test/envoy-gateway

go 1.26.0

require github.com/envoyproxy/gateway v1.9.1
