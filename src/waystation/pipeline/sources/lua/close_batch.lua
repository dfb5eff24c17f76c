--- Close a batch: write its receipt and delete its keys; from now on it takes nothing more.
--- keys  receipt done
--- args  keep_ms:int rows:int now_ms:int -> bool
if redis.call('HEXISTS', receipt, 'closed_ms') == 1 then return 0 end
redis.call('HSET', receipt, 'jobs', redis.call('SCARD', done), 'rows', rows, 'closed_ms', now_ms)
redis.call('PEXPIRE', receipt, keep_ms)
redis.call('UNLINK', done)
return 1
