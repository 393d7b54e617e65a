/** What to mend, in the words of who has to do it. */
export const ADVICE = {
  socket:
    "The page can reach the API, but not the socket. If a proxy stands in front of the server, let it pass WebSocket " +
    "upgrades for /v1/rtc and keep them open.",
  path:
    "The socket works, but no media packet came through. Open the media port (MEDIA_UDP_PORT, 7001 unless changed) for " +
    "UDP and TCP in every firewall on the way, and set PUBLIC_IP to the address under which browsers reach the server. " +
    "For networks that let only port 443 out, start the server with DOMAIN, or add a TURN server with TURN_URLS.",
  noRelay:
    "Start the server with DOMAIN (or TLS_CERT and TLS_KEY): it then relays media at port 443 itself. Or name another " +
    "TURN server with TURN_URLS.",
  transport: "The browser did not say how its packets travel. Try another browser.",
  tcp:
    "It works, but over TCP: every lost packet then holds up all that follow. Open the media port for UDP between this " +
    "network and the server.",
  relayed:
    "It works, but through a TURN server, which adds delay and carries all traffic. Open the media port for UDP if this " +
    "network can be changed.",
  publish:
    "The connection stands, but nothing could be sent. Look into the server's log at this time; a browser extension that " +
    "blocks WebRTC is the usual cause.",
  receive:
    "Sending works, receiving does not. Look at the load of the media server, and whether a firewall lets packets out of " +
    "it but not back.",
  reconnect:
    "The first connection worked, a second one did not. Look for a proxy that limits connections, or for " +
    "SIGNALING_MAX_CONNECTIONS_PER_WINDOW: behind a proxy, set TRUSTED_PROXIES, or everybody counts as one address.",
} as const;
