/**
 * The one-time token in the fragment of the address. It is removed from the address at once, so that it does not stay in
 * the history or on the screen.
 */
export function takeToken(): string | null {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) history.replaceState(history.state, "", location.pathname + location.search);
  return token;
}

const KEY = "stoa-invitation";

/** An invitation that is kept in this tab while the user signs in with a provider. */
export const heldInvitation = {
  keep: (token: string) => sessionStorage.setItem(KEY, token),
  take(): string | undefined {
    const token = sessionStorage.getItem(KEY) ?? undefined;
    sessionStorage.removeItem(KEY);
    return token;
  },
};
