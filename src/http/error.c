/* What a failed transfer means to us. Messages name host and port, never headers or bodies. */
#include "http/internal.h"

#include "base/error.h"

/* The meaning of WALDO_OK in this table: the connection was lost; when decides the status. */
static const struct {
    short code;   /* CURLcode */
    short status; /* waldo_status */
    short error_class;
    const char *text;
    const char *advice;
} table[] = {
    { CURLE_COULDNT_RESOLVE_PROXY, WALDO_ERESOLVE, WALDO_CLASS_TRANSPORT,
      "the proxy's name cannot be resolved", "check the proxy setting" },
    { CURLE_COULDNT_RESOLVE_HOST, WALDO_ERESOLVE, WALDO_CLASS_TRANSPORT,
      "the host name cannot be resolved", "check the URL and the name service" },
    { CURLE_COULDNT_CONNECT, WALDO_ECONNECT, WALDO_CLASS_TRANSPORT, "cannot connect",
      "check that the server runs and the address is right" },
    { CURLE_PROXY, WALDO_ECONNECT, WALDO_CLASS_TRANSPORT, "the proxy refused",
      "check the proxy setting" },
    { CURLE_INTERFACE_FAILED, WALDO_ECONNECT, WALDO_CLASS_TRANSPORT, "cannot connect", NULL },
    { CURLE_OPERATION_TIMEDOUT, WALDO_ETIMEDOUT_CONNECT, WALDO_CLASS_TRANSPORT,
      "no connection in time", "check the address and the network" },
    { CURLE_PEER_FAILED_VERIFICATION, WALDO_ETLS, WALDO_CLASS_TLS,
      "the server's certificate is not trusted",
      "give its authority as ca_file if you know the server" },
    { CURLE_SSL_CONNECT_ERROR, WALDO_ETLS, WALDO_CLASS_TLS, "TLS could not be agreed on",
      "check that the port speaks TLS" },
    { CURLE_SSL_CACERT_BADFILE, WALDO_ETLS, WALDO_CLASS_TLS,
      "the certificate authorities cannot be read", "check ca_file, or install ca-certificates" },
    { CURLE_SSL_CERTPROBLEM, WALDO_ETLS, WALDO_CLASS_TLS, "certificate problem", NULL },
    { CURLE_SSL_CIPHER, WALDO_ETLS, WALDO_CLASS_TLS, "no common cipher", NULL },
    { CURLE_SSL_ISSUER_ERROR, WALDO_ETLS, WALDO_CLASS_TLS, "certificate problem", NULL },
    { CURLE_SSL_INVALIDCERTSTATUS, WALDO_ETLS, WALDO_CLASS_TLS, "certificate problem", NULL },
    { CURLE_SSL_ENGINE_INITFAILED, WALDO_ETLS, WALDO_CLASS_TLS, "TLS does not start", NULL },
    { CURLE_USE_SSL_FAILED, WALDO_ETLS, WALDO_CLASS_TLS, "TLS could not be agreed on", NULL },
    { CURLE_URL_MALFORMAT, WALDO_EINVAL, WALDO_CLASS_USAGE, "not a valid URL", NULL },
    { CURLE_LOGIN_DENIED, WALDO_EINVAL, WALDO_CLASS_USAGE,
      "a URL must not hold a user name or password", "give keys by name" },
    { CURLE_OUT_OF_MEMORY, WALDO_ENOMEM, WALDO_CLASS_SYSTEM, "out of memory", NULL },
    { CURLE_WEIRD_SERVER_REPLY, WALDO_EPROTO, WALDO_CLASS_PROTOCOL, "the answer is not HTTP",
      "check that the port speaks HTTP" },
    /* HTTP/0.9, that is: no status line. Schemes of URLs were checked before. */
    { CURLE_UNSUPPORTED_PROTOCOL, WALDO_EPROTO, WALDO_CLASS_PROTOCOL, "the answer is not HTTP",
      NULL },
    { CURLE_BAD_CONTENT_ENCODING, WALDO_EPROTO, WALDO_CLASS_PROTOCOL,
      "the answer's compression is broken", NULL },
    { CURLE_SEND_ERROR, WALDO_OK, WALDO_CLASS_TRANSPORT, NULL, NULL },
    { CURLE_RECV_ERROR, WALDO_OK, WALDO_CLASS_TRANSPORT, NULL, NULL },
    { CURLE_GOT_NOTHING, WALDO_OK, WALDO_CLASS_TRANSPORT, NULL, NULL },
    { CURLE_PARTIAL_FILE, WALDO_OK, WALDO_CLASS_TRANSPORT, NULL, NULL },
    { CURLE_SEND_FAIL_REWIND, WALDO_OK, WALDO_CLASS_TRANSPORT, NULL, NULL },
    { CURLE_HTTP2, WALDO_OK, WALDO_CLASS_TRANSPORT, NULL, NULL },
    { CURLE_HTTP2_STREAM, WALDO_OK, WALDO_CLASS_TRANSPORT, NULL, NULL },
};

/* May the server have seen a part of it? */
static int was_sent(const waldo__transfer *transfer)
{
    long bytes = 0;

    curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &bytes);
    return transfer->sends > 0 && bytes > 0;
}

static void lost(waldo__transfer *transfer)
{
    if (transfer->head_ready) {
        transfer->status =
            waldo_error_set(&transfer->error, WALDO_ETRUNCATED, WALDO_CLASS_TRANSPORT,
                            "%s closed the connection in the middle of its answer", transfer->peer);
    } else if (!was_sent(transfer)) {
        transfer->status =
            waldo_error_set(&transfer->error, WALDO_ETRANSPORT, WALDO_CLASS_TRANSPORT,
                            "the connection to %s failed before the request was "
                            "sent: it can be sent again",
                            transfer->peer);
    } else if (transfer->replay == WALDO__REPLAY_SAFE) {
        transfer->status =
            waldo_error_set(&transfer->error, WALDO_ETRANSPORT, WALDO_CLASS_TRANSPORT,
                            "%s closed the connection without an answer", transfer->peer);
    } else {
        transfer->status =
            waldo_error_set(&transfer->error, WALDO_EUNKNOWN_OUTCOME, WALDO_CLASS_TRANSPORT,
                            "%s closed the connection without an answer: whether "
                            "it did what was asked is unknown",
                            transfer->peer);
    }
}

/* Our own callbacks stopped it. */
static void stopped(waldo__transfer *transfer)
{
    transfer->status = transfer->stopped;
    if (transfer->stopped == WALDO_ENOMEM) {
        waldo__error_nomem(&transfer->error);
        return;
    }
    waldo_error_set(
        &transfer->error, transfer->stopped, WALDO_CLASS_PROTOCOL,
        transfer->head_ready ? "the answer of %s is larger than %llu bytes"
                             : "the headers of %s are larger than %llu bytes",
        transfer->peer,
        (unsigned long long)(transfer->head_ready ? transfer->max_body : transfer->head.max));
}

void waldo__transfer_failed(waldo__transfer *transfer, CURLcode code)
{
    if (transfer->stopped != WALDO_OK) {
        stopped(transfer);
        return;
    }
    if (transfer->resend_cut) {
        lost(transfer);
        return;
    }
    if (transfer->address_refused && transfer->sends == 0) {
        transfer->status = waldo_error_set(&transfer->error, WALDO_EACCESS, WALDO_CLASS_TRANSPORT,
                                           "%s is not a public address: only those may be fetched",
                                           transfer->peer);
        return;
    }
    for (size_t i = 0; i < WALDO__COUNT(table); i++) {
        const char *detail =
            transfer->error_text[0] != '\0' ? transfer->error_text : curl_easy_strerror(code);

        if (table[i].code != (short)code) {
            continue;
        }
        if (table[i].status == WALDO_OK) {
            lost(transfer);
            return;
        }
        transfer->status = waldo_error_set(&transfer->error, table[i].status, table[i].error_class,
                                           "%s: %s (%s)%s%s", transfer->peer, table[i].text, detail,
                                           table[i].advice != NULL ? "; " : "",
                                           table[i].advice != NULL ? table[i].advice : "");
        return;
    }
    transfer->status = waldo_error_set(
        &transfer->error,
        was_sent(transfer) && transfer->replay != WALDO__REPLAY_SAFE ? WALDO_EUNKNOWN_OUTCOME
                                                                     : WALDO_ETRANSPORT,
        WALDO_CLASS_TRANSPORT, "%s: %s", transfer->peer, curl_easy_strerror(code));
}
