-- extend.lua: give a claim more time, if it is still the owner's.
-- KEYS[1] listings (hash)   KEYS[2] owner
-- ARGV[1] owner   ARGV[2] ms from now, '' = for ever   ARGV[3] field
-- Reply: 'ok' | 'lost'
if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 or redis.call('MGET', KEYS[2])[1] ~= ARGV[1] then return 'lost' end
if ARGV[2] == '' then
  redis.call('PERSIST', KEYS[2])
else
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
return 'ok'
