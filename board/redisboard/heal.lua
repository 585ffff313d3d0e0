-- heal.lua: raise the counter of sequence numbers, if it was lost or set back, and forget the attempts of postings that others consumed.
-- KEYS[1] sequence   KEYS[2] listings (hash)   KEYS[3] attempts (hash)
-- ARGV[1] the highest sequence number in use
-- Reply: 'ok'
if tonumber(redis.call('GET', KEYS[1]) or 0) < tonumber(ARGV[1]) then redis.call('SET', KEYS[1], ARGV[1]) end
for _, field in ipairs(redis.call('HKEYS', KEYS[3])) do
  if redis.call('HEXISTS', KEYS[2], field) == 0 then redis.call('HDEL', KEYS[3], field) end
end
return 'ok'
