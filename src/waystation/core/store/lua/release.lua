--- Take a holder's place away; 0 when it had none.
--- keys  state
--- args  holder
return redis.call('ZREM', state, holder)
