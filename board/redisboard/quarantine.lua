-- quarantine.lua: put a record aside that is no posting.
-- KEYS[1] listings (hash)   KEYS[2] trash (hash)   KEYS[3] owner   KEYS[4] last_modified
-- ARGV[1] field   ARGV[2] SHA-1 (hex) of the record that was looked at   ARGV[3] channel of events
-- Reply: 'ok' | 'not_found' if it is gone or another one
local record = redis.call('HGET', KEYS[1], ARGV[1])
if not record or redis.sha1hex(record) ~= ARGV[2] then return 'not_found' end
redis.call('HSET', KEYS[2], ARGV[1], record)
redis.call('DEL', KEYS[3], KEYS[4])
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('PUBLISH', ARGV[3], 'trash')
return 'ok'
