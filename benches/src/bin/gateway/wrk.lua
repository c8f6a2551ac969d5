-- Arguments: the request before and after its number, with | for a line's end; how many IDs; where to begin; the step.
local head, tail, count, at, step
local format = string.format

function init(args)
  head = args[1]:gsub("|", "\r\n")
  tail = args[2]:gsub("|", "\r\n")
  count, at, step = tonumber(args[3]), tonumber(args[4]), tonumber(args[5])
end

function request()
  at = (at + step) % count
  return head .. format("%07d", at) .. tail
end

function done(summary)
  local errors = summary.errors
  local broken = errors.connect + errors.read + errors.write + errors.timeout
  print(format("figures: %d %d %d %d", summary.requests, summary.duration, errors.status, broken))
end
