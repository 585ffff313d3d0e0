-- flush.lua: make one aggregate of what was collected and put it into its stream. It stands before gather.lua and collect.lua.
-- An aggregate is a message whose one argument is the array of its members, each the bytes of a message; head and tail are what stands around that array.
local function flush(collecting, collected, collection, stream)
  local c = redis.call('HMGET', collected, 'n', 'head', 'tail')
  local n = tonumber(c[1])
  local function big(v) return string.char(math.floor(v / 16777216) % 256, math.floor(v / 65536) % 256, math.floor(v / 256) % 256, v % 256) end
  local parts = {c[2], '\221', big(n)}
  for i = 1, n do
    local m = redis.call('HGET', collected, i)
    parts[#parts + 1] = '\198' .. big(#m)
    parts[#parts + 1] = m
  end
  parts[#parts + 1] = c[3]
  local entry = redis.call('XADD', stream, '*', 'data', table.concat(parts))
  redis.call('DEL', collected)
  redis.call('ZREM', collecting, collection)
  return entry
end
local function wrong(key, want)
  local t = redis.call('TYPE', key).ok
  return t ~= 'none' and t ~= want
end
local function refuse(key) return redis.error_reply('WRONGTYPE ' .. key .. ' is a ' .. redis.call('TYPE', key).ok) end
