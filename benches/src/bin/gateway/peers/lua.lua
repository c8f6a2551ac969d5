-- The table in Envoy's Lua filter, one copy for each worker: an ID to its address, or "-" where the sandbox is paused.
local routes = {}
for line in io.lines("ROUTES") do
  local id, ip = line:match("^(%S+) (%S+)$")
  if id then routes[id] = ip end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local port, id = headers:get(":authority"):match("^(%d+)%-([^.]+)%.")
  local ip = id and routes[id]
  if not ip then
    handle:respond({ [":status"] = "502" }, "unknown sandbox\n")
  elseif ip == "-" then
    handle:respond({ [":status"] = "502" }, "sandbox is not running\n")
  else
    headers:replace("x-envoy-original-dst-host", ip .. ":" .. port)
  end
end
