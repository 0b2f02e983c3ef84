"""What commands find, and how it is said to users: messages in English and Chinese."""
