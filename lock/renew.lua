-- renew.lua: let locks live on for their time from now, those that still are the owner's.
-- KEYS, ARGV  as common.lua says; its own: ARGV[4]  owner
-- Reply  per lock "ok", or "gone" when it was not the owner's any more
local owner = ARGV[4]

-- The key lives as long as what lives longest in it; without a time to live (readers without lease) it stays.
local function lengthen(s)
  local left = redis.call('PTTL', s.lock)
  if left >= 0 and left < s.ttl then redis.call('PEXPIRE', s.lock, s.ttl) end
end

local renew = {}

function renew.mutex(s)
  return redis.call('GET', s.lock) == owner and redis.call('PEXPIRE', s.lock, s.ttl) == 1
end

function renew.write(s)
  local v = redis.call('HMGET', s.lock, 'writer_owner', 'writer_until')
  if v[1] ~= owner or (tonumber(v[2]) or 0) <= ms then return false end
  redis.call('HSET', s.lock, 'writer_until', text(ms + s.ttl))
  lengthen(s)
  return true
end

function renew.read(s)
  local till = redis.call('HGET', s.lock, 'r:' .. owner)
  if not till or tonumber(till) <= ms then return false end
  redis.call('HSET', s.lock, 'r:' .. owner, text(ms + s.ttl))
  keep_foreign(s)
  lengthen(s)
  return true
end

function renew.conc(s)
  local till = redis.call('ZSCORE', s.lock, owner)
  if not till or tonumber(till) <= ms then return false end
  redis.call('ZADD', s.lock, 'XX', text(ms + s.ttl), owner)
  expire_slots(s)
  return true
end

local all, reply = locks(5), {}
for _, s in ipairs(all) do
  look(s)
end
for _, s in ipairs(all) do
  reply[#reply + 1] = s.there and renew[s.kind](s) and 'ok' or 'gone'
end
return reply
