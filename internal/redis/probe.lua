-- probe.lua: tries every command that Takt's scripts use and says which are missing or denied.
-- KEYS[1] stream   KEYS[2] string   KEYS[3] sorted set   KEYS[4] set   KEYS[5] hash
--   all five are names nobody else uses and are gone when the script ends
-- ARGV: none
-- Reply: {} = all there | {command, what the server said, command, what the server said, ...}
local bad = {}
local function try(...)
  local r = redis.pcall(...)
  if type(r) == 'table' and r.err then
    bad[#bad + 1] = (select(1, ...))
    bad[#bad + 1] = r.err
    return nil
  end
  return r
end
try('TIME') -- first: a server that cannot write after it replicates scripts instead of their effects
try('DEL', KEYS[2]) -- a full server refuses SET as the first write of a script, and those who would make room must be able to start
try('SET', KEYS[2], 'a', 'PX', '60000')
try('SET', KEYS[2], 'b', 'XX', 'KEEPTTL')
try('GET', KEYS[2])
try('STRLEN', KEYS[2])
try('TYPE', KEYS[2])
try('PEXPIRE', KEYS[2], '60000')
try('PTTL', KEYS[2])
try('PERSIST', KEYS[2])
try('EXISTS', KEYS[2])
try('MGET', KEYS[2])
try('DEL', KEYS[2])
try('INCR', KEYS[2])
try('INCRBY', KEYS[2], '2')
try('ZADD', KEYS[3], '1', 'a')
try('ZREM', KEYS[3], 'b')
try('ZCARD', KEYS[3])
try('ZSCORE', KEYS[3], 'a')
try('ZRANGE', KEYS[3], '-inf', '+inf', 'BYSCORE', 'LIMIT', '0', '1')
try('SADD', KEYS[4], 'a')
try('SREM', KEYS[4], 'b')
try('SCARD', KEYS[4])
try('SISMEMBER', KEYS[4], 'a')
try('SINTER', KEYS[4], KEYS[4])
try('SMEMBERS', KEYS[4])
try('HSET', KEYS[5], 'f', 'v')
try('HGET', KEYS[5], 'f')
try('HGETALL', KEYS[5])
try('HLEN', KEYS[5])
try('HDEL', KEYS[5], 'f')
try('XGROUP', 'CREATE', KEYS[1], 'g', '0', 'MKSTREAM')
local id = try('XADD', KEYS[1], '*', 'f', 'v')
try('XREADGROUP', 'GROUP', 'g', 'c', 'COUNT', '1', 'STREAMS', KEYS[1], '>')
try('XPENDING', KEYS[1], 'g', '-', '+', '1', 'c')
if type(id) == 'string' then
  try('XCLAIM', KEYS[1], 'g', 'd', '0', id, 'JUSTID')
  try('XACK', KEYS[1], 'g', id)
  try('XDEL', KEYS[1], id)
end
try('XRANGE', KEYS[1], '-', '+', 'COUNT', '1')
try('XLEN', KEYS[1])
try('XREAD', 'COUNT', '1', 'STREAMS', KEYS[1], '18446744073709551615-18446744073709551615')
try('XINFO', 'CONSUMERS', KEYS[1], 'g')
try('XTRIM', KEYS[1], 'MINID', '~', '0')
try('XGROUP', 'DELCONSUMER', KEYS[1], 'g', 'd')
try('XGROUP', 'DESTROY', KEYS[1], 'g')
redis.pcall('DEL', KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5])
return bad
