/**
 * A one-time token that came in the fragment of the address. It is taken out of the address at once, so that it stays
 * neither in the history nor on the screen.
 */
export function takeToken(): string | null {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) history.replaceState(history.state, "", location.pathname + location.search);
  return token;
}

const KEY = "stoa-invitation";

/** An invitation that a provider's sign-in page comes between; this tab alone remembers it. */
export const heldInvitation = {
  keep: (token: string) => sessionStorage.setItem(KEY, token),
  take(): string | undefined {
    const token = sessionStorage.getItem(KEY) ?? undefined;
    sessionStorage.removeItem(KEY);
    return token;
  },
};
