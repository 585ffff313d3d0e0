-- leave.lua: delete a consumer that holds nothing.
-- KEYS[1] stream
-- ARGV[1] group   ARGV[2] consumer
-- Reply: {"ok"} | {"holds"}: entries are pending for it, nothing done
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) > 0 then return {'holds'} end
redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
return {'ok'}
