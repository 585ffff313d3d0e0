-- give.lua: give locks back, each for itself, and call who waits for them.
-- KEYS, ARGV  as common.lua says; its own: ARGV[4]  owner   ARGV[5]  "1" = the quota of rates too, for the work did not begin
-- Reply  per lock "ok", or "gone" when it was not the owner's any more; then the waiters whose turn it is now
local owner = ARGV[4]

local give = {}

function give.mutex(s)
  if redis.call('GET', s.lock) ~= owner then return false end
  redis.call('DEL', s.lock)
  return true
end

function give.write(s)
  local v = redis.call('HMGET', s.lock, 'writer_owner', 'writer_until')
  if v[1] ~= owner then return false end
  redis.call('HDEL', s.lock, 'writer_owner', 'writer_until')
  return (tonumber(v[2]) or 0) > ms
end

function give.read(s)
  local till = redis.call('HGET', s.lock, 'r:' .. owner)
  if not till then return false end
  redis.call('HDEL', s.lock, 'r:' .. owner)
  if redis.call('HINCRBY', s.lock, 'readers', -1) <= 0 then redis.call('HDEL', s.lock, 'readers', 'foreign_since') end
  keep_foreign(s)
  return tonumber(till) > ms
end

function give.conc(s)
  local till = redis.call('ZSCORE', s.lock, owner)
  redis.call('ZREM', s.lock, owner)
  return till and tonumber(till) > ms
end

function give.rate(s)
  local number, at = string.match(s.mark, '^(%d+) (%d+)$')
  if ARGV[5] ~= '1' or not number then return true end
  local have, n = cell(s, tonumber(number))
  if text(have) ~= at or n < s.items then return true end -- its window is over
  redis.call('HSET', s.lock, number, at .. ' ' .. text(n - s.items))
  redis.call('HINCRBY', s.lock, 'used', -s.items)
  return true
end

local all, reply = locks(6), {}
for _, s in ipairs(all) do
  look(s)
end
for _, s in ipairs(all) do
  local ours = s.kind == 'rate' and not s.there
  if s.there then ours = give[s.kind](s) end
  reply[#reply + 1] = ours and 'ok' or 'gone'
end
for _, s in ipairs(all) do
  if not s.bad then call(s) end
end
publish()
for _, name in ipairs(woken) do reply[#reply + 1] = name end
return reply
