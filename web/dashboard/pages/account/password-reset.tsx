import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, request } from "../../api.ts";
import { takeToken } from "../../one-time-token.ts";
import { FormProblem, SubmitButton, useSubmit } from "../../parts/form.tsx";
import { EmailField, NewPasswordField } from "../../parts/frame/credentials.tsx";
import { SignedOutPage } from "../../parts/frame/signed-out-page.tsx";
import { toastDone } from "../../parts/toast.tsx";
import { adoptSession } from "../../session.ts";

/** Requests a reset link or, with the token of the link, sets the new password. */
export function PasswordReset() {
  const [token] = useState(takeToken);
  return token === null ? <AskForLink /> : <NewPassword token={token} />;
}

function AskForLink() {
  const [email, setEmail] = useState("");
  const [sent, setSent] = useState(false);
  const form = useSubmit(async () => {
    await request(api.v1.auth["password-reset"].post({ email }));
    setSent(true);
  });
  return (
    <SignedOutPage title="Choose a new password">
      {sent ? (
        <p class="note good" role="status">
          If there is an account for {email}, a link is on its way. Without a mail server it stands in the server's log.
        </p>
      ) : (
        <form class="stack" onSubmit={form.onSubmit}>
          <EmailField form={form} value={email} onValue={setEmail} />
          <FormProblem form={form} />
          <SubmitButton form={form}>Send me a link</SubmitButton>
        </form>
      )}
      <p class="small">
        <a href="/">Back to sign in</a>
      </p>
    </SignedOutPage>
  );
}

function NewPassword({ token }: { token: string }) {
  const { route } = useLocation();
  const [password, setPassword] = useState("");
  const form = useSubmit(async () => {
    adoptSession(await request(api.v1.auth["password-reset"].confirm.post({ token, password })));
    toastDone("Your password was changed. Other sessions have ended.");
    route("/", true);
  });
  return (
    <SignedOutPage title="Choose a new password">
      <form class="stack" onSubmit={form.onSubmit}>
        <NewPasswordField form={form} label="New password" value={password} onValue={setPassword} />
        <FormProblem form={form} />
        <SubmitButton form={form}>Save and sign in</SubmitButton>
      </form>
    </SignedOutPage>
  );
}
