-- Time stamps of tree heads by an authority of somebody else (RFC 3161): no clock and no key of ours says when.

CREATE TABLE time_stamps (
    tenant     VARCHAR NOT NULL,
    size       BIGINT  NOT NULL,            -- of the tree head
    signed_at  BIGINT  NOT NULL,            -- of the tree head: two of one size differ in it
    stamped_at BIGINT  NOT NULL,            -- UTC nanoseconds, as the authority says
    authority  VARCHAR NOT NULL,            -- where it was asked
    response   BLOB    NOT NULL             -- the whole TimeStampResp in DER, of the head's signed note
);
