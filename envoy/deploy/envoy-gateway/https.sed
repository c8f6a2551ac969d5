# The recipe for a listener with TLS, with the certificate of the Secret `sandbox-example-com` beside the Gateway:
#
#   for file in gateway patches envoyproxy; do sed -f https.sed $file.yaml | kubectl apply -f -; done
s#^\( *- name: \|.*sectionName: \)http$#\1https#
s#protocol: HTTP$#protocol: HTTPS#
s#^\( *\)port: 80$#\1port: 443\n\1tls: { certificateRefs: [{ name: sandbox-example-com }] }#
s#0\.0\.0\.0:10080#0.0.0.0:10443#
# Envoy Gateway gives such a listener other names, and its filters another place.
s#sandgate-system/sandboxes/http\b#sandgate-system/sandboxes/https#
s#/default_filter_chain/#/filter_chains/0/#
s#\$\.default_filter_chain\.#$.filter_chains[0].#
