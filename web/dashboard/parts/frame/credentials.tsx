import { Field } from "../field.tsx";
import { type Submit, TextInput } from "../form.tsx";

type CredentialProps = { form: Submit; value: string; onValue: (value: string) => void };

export function EmailField({ form, value, onValue }: CredentialProps) {
  return (
    <Field label="E-mail address" error={form.problem("email")}>
      <TextInput type="email" autocomplete="username" required value={value} onValue={onValue} />
    </Field>
  );
}

type NewPasswordProps = CredentialProps & { label: string; name?: string };

/** The field for a new password, which has a minimum length. */
export function NewPasswordField({ form, label, name = "password", value, onValue }: NewPasswordProps) {
  return (
    <Field label={label} hint="At least 10 characters." error={form.problem(name)}>
      <TextInput
        type="password"
        autocomplete="new-password"
        required
        minLength={10}
        maxLength={200}
        value={value}
        onValue={onValue}
      />
    </Field>
  );
}

export function PasswordField({ form, label, name = "password", value, onValue }: NewPasswordProps) {
  return (
    <Field label={label} error={form.problem(name)}>
      <TextInput type="password" autocomplete="current-password" required value={value} onValue={onValue} />
    </Field>
  );
}
