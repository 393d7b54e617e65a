import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { api, request } from "../../api.ts";
import { Field } from "../../parts/field.tsx";
import { FormProblem, SubmitButton, TextInput, useSubmit } from "../../parts/form.tsx";
import { EmailField, NewPasswordField } from "../../parts/frame/credentials.tsx";
import { Providers } from "../../parts/frame/providers.tsx";
import { SignedOutPage } from "../../parts/frame/signed-out-page.tsx";
import { adoptSession } from "../../session.ts";

type RegisterProps = { first: boolean; providers: readonly string[]; onBack: () => void };

export function Register({ first, providers, onBack }: RegisterProps) {
  return (
    <SignedOutPage title={first ? "Create the operator account" : "Create an account"}>
      {first && <p>This server is new. The first account operates it: projects, media servers and other accounts.</p>}
      <RegisterForm>
        <Providers names={providers} />
      </RegisterForm>
      {!first && (
        <p class="small">
          <button type="button" class="link" onClick={onBack}>
            Sign in instead
          </button>
        </p>
      )}
    </SignedOutPage>
  );
}

type RegisterFormProps = {
  email?: string;
  inviteToken?: string;
  onDone?: () => void;
  /** Other ways to sign in, hidden once the mail is sent. */
  children?: ComponentChildren;
};

/** With an invitation, the e-mail address is fixed. */
export function RegisterForm({ email: invited, inviteToken, onDone, children }: RegisterFormProps) {
  const [email, setEmail] = useState(invited ?? "");
  const [name, setName] = useState("");
  const [password, setPassword] = useState("");
  const [waiting, setWaiting] = useState(false);
  const form = useSubmit(async () => {
    const body = { email, password, ...(name !== "" && { name }), ...(inviteToken && { inviteToken }) };
    const registered = await request(api.v1.auth.register.post(body));
    if (!("accessToken" in registered)) setWaiting(true);
    else {
      adoptSession(registered);
      onDone?.();
    }
  });
  if (waiting) {
    return (
      <p class="note good" role="status">
        Almost there: open the link in the mail that was sent to {email}.
      </p>
    );
  }
  return (
    <>
      <form class="stack" onSubmit={form.onSubmit}>
        <EmailField form={form} value={email} onValue={setEmail} />
        <Field label="Your name" hint="Shown to other members." error={form.problem("name")}>
          <TextInput autocomplete="name" maxLength={80} value={name} onValue={setName} />
        </Field>
        <NewPasswordField form={form} label="Password" value={password} onValue={setPassword} />
        <FormProblem form={form} />
        <SubmitButton form={form}>Create the account</SubmitButton>
      </form>
      {children}
    </>
  );
}
