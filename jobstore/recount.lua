-- recount.lua: count the bytes that a scope has stored anew, by the entries of its orders.
-- KEYS[1]  pubidx:{scope}   KEYS[2]  jobbytes:{scope}
-- Reply    the bytes, and 1 if another number stood there, else 0 | {"type", key} holds something else, nothing was written
-- The member "bytes" is the last of an entry. An order in EndState has none, nor has one that an earlier version wrote.
local want = {'hash', 'string'}
for i = 1, 2 do
  local t = redis.call('TYPE', KEYS[i]).ok
  if t ~= 'none' and t ~= want[i] then return {'type', KEYS[i]} end
end
local bytes = 0
for _, entry in ipairs(redis.call('HVALS', KEYS[1])) do
  bytes = bytes + (tonumber(string.match(entry, '"bytes":(%d+)}$')) or 0)
end
local text = string.format('%.0f', bytes)
if (redis.call('GET', KEYS[2]) or '0') == text then return {text, '0'} end
redis.call('SET', KEYS[2], text)
return {text, '1'}
