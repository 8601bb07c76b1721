//! One round: read the ledger, find the target, compile, observe. What a plan is made of; the command line, the
//! scenarios and the operator all come through here.
